// Checkpoints: all states of a run with what it takes to go on, in a folder of its own.
//
//   OUT/checkpoints/step-20/states.safetensors   slices of states, in global coordinates
//                           manifest.json        slices, checksum of each file, config, counters
//
// A checkpoint is written as step-20.tmp and renamed when everything is on disk, so a folder named
// step-N with a valid manifest is complete, whatever happened to the writer. Memory taken is a
// small buffer, or the one tensor that is read.
//
// Thread-safe: functions of their arguments; const methods of Checkpoint may run in parallel. A
// Checkpoint owns its mapping; a FileSystem must outlive the call it is given to.
//
//   RETURN_IF_ERROR(WriteCheckpoint(files, "out/checkpoints", record, read));
//   ASSIGN_OR_RETURN(std::optional<Checkpoint> newest, FindNewest(files, "out/checkpoints", log));
//   if (newest) { newest->record().counters.attempted ... newest->Read("wte.weight") ... }
#ifndef COLOSSUS_TRAINERS_LIB_CHECKPOINT_H_
#define COLOSSUS_TRAINERS_LIB_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "tensor/graph/types.h"
#include "tensor/host_tensor.h"
#include "tensor/io/safetensors.h"
#include "trainers/lib/log.h"
#include "trainers/lib/loss_scale.h"
#include "trainers/lib/sampler.h"

namespace colossus {

// Updates so far.
struct Counters {
  int64_t attempted = 0;  // the step of the last one
  int64_t applied = 0;
  int64_t skipped = 0;
  int64_t nonfinite_in_a_row = 0;  // the newest attempts that were not finite
  friend bool operator==(const Counters&, const Counters&) = default;
};

// A state as it is saved. One rank saves whole states: origin is zero and extent is `type.dims`.
struct SavedState {
  std::string name;
  std::string role;  // Name(Role)
  Type type;         // dims are global
};

// Everything but the values.
struct CheckpointRecord {
  Counters counters;
  DataPosition data;      // where the next update starts
  int64_t data_rows = 0;  // of the training data, to notice another corpus
  std::optional<LossScaleState> loss_scale;  // of fp16 runs
  std::string config;     // the effective configuration (TOML)
  std::string model;      // the model's config.json
  std::vector<SavedState> states;
};

// OUT/checkpoints, where OUT is a run's --out; and the folder of the checkpoint of a step in there.
std::string CheckpointFolder(const std::string& out);
std::string CheckpointPath(const std::string& folder, int64_t step);

// Copies bytes [offset, offset + bytes) of a state to `dst`.
using StateBytesReader = std::function<absl::Status(const std::string& name, int64_t offset,
                                                    void* dst, int64_t bytes)>;

// Writes folder/step-N, N = attempted updates; `folder` is made if missing. After an error nothing
// is left that looks complete, and older checkpoints are as they were. ResourceExhausted: the disk
// is full; the message has the path, and the wanted and the free bytes.
absl::Status WriteCheckpoint(FileSystem& files, const std::string& folder,
                             const CheckpointRecord& record, const StateBytesReader& read);

class Checkpoint {
 public:
  // `path`: the folder step-N. Reads the manifest, holds every file against its size and checksum,
  // and the states against their slices. InvalidArgument or NotFound names the file at fault.
  static absl::StatusOr<Checkpoint> Open(FileSystem& files, const std::string& path);

  const std::string& path() const { return path_; }
  const CheckpointRecord& record() const { return record_; }
  const SavedState* Find(absl::string_view name) const;  // none: nullptr

  // NotFound for another name. REQUIRES: inside the state.
  absl::Status ReadBytes(absl::string_view name, int64_t offset, void* dst, int64_t bytes) const;
  absl::StatusOr<HostTensor> Read(absl::string_view name) const;

 private:
  Checkpoint(std::string path, CheckpointRecord record, SafetensorsFile states)
      : path_(std::move(path)), record_(std::move(record)), states_(std::move(states)) {}

  std::string path_;
  CheckpointRecord record_;
  SafetensorsFile states_;
};

// Whether `path` is a checkpoint's folder: it has a manifest.
bool IsCheckpoint(FileSystem& files, const std::string& path);

// The newest complete checkpoint of `folder`; none if there is none. What is passed over on the way
// is logged with the path and the reason. Error: the folder cannot be listed.
absl::StatusOr<std::optional<Checkpoint>> FindNewest(FileSystem& files, const std::string& folder,
                                                     Log& log);

// Removes all but the `keep` newest complete checkpoints up to step `newest`, the one just written;
// nothing where that one is not complete or another cannot be read now, which is an error.
// What interrupted saves left behind goes too, and what is newer: the run passed it over when it
// resumed. Checksums are not looked at. REQUIRES: keep >= 1.
absl::Status KeepNewest(FileSystem& files, const std::string& folder, int64_t newest,
                        int64_t keep);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CHECKPOINT_H_
