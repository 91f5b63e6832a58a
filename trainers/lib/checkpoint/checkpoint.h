// Checkpoints: all states of a run with what it takes to go on, in a folder of its own.
//
//   OUT/checkpoints/step-20/states.safetensors   one rank's pieces of states (state_piece.h)
//                           states-1.safetensors  those of rank 1, and so on
//                           manifest.json        pieces, checksum of each file, config, counters
//
// A checkpoint is written as step-20.tmp and renamed when everything is on disk (write.h), so a
// folder named step-N with a valid manifest is complete, whatever happened to the writers. Pieces
// are in global coordinates: what was saved at one layout is read at any other. Memory taken is the
// caller's buffer, or the one tensor that is read.
//
// Thread-safe: functions of their arguments; const methods of Checkpoint may run in parallel. A
// Checkpoint owns its mappings; a FileSystem must outlive the call it is given to.
//
//   ASSIGN_OR_RETURN(std::optional<Checkpoint> newest, FindNewest(files, "out/checkpoints", log));
//   if (newest) { newest->record().counters.attempted ... newest->Read("wte.weight") ... }
//   RETURN_IF_ERROR(newest->ReadPiece("wte.weight", {{0, 32}, {257, 32}, 0, 8224}, buffer));
#ifndef COLOSSUS_TRAINERS_LIB_CHECKPOINT_CHECKPOINT_H_
#define COLOSSUS_TRAINERS_LIB_CHECKPOINT_CHECKPOINT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "tensor/graph/state_piece.h"
#include "tensor/host_tensor.h"
#include "tensor/io/safetensors.h"
#include "trainers/lib/checkpoint/manifest.h"
#include "trainers/lib/checkpoint/record.h"
#include "trainers/lib/config/log.h"
#include "trainers/lib/ranks/rank_group.h"

namespace colossus {

// OUT/checkpoints, where OUT is a run's --out; and the folder of the checkpoint of a step in there.
std::string CheckpointFolder(const std::string& out);
std::string CheckpointPath(const std::string& folder, int64_t step);

// What an interrupted save leaves behind ends in this.
inline constexpr char kTemporarySuffix[] = ".tmp";

class Checkpoint {
 public:
  // `path`: the folder step-N. Reads the manifest, holds every file against its size and its pieces
  // against the file. Of the checksums it verifies those of each `ranks`th file from number `rank`
  // on: all, or this rank's share where all ranks open it; none if `ranks` is 0. InvalidArgument or
  // NotFound names the file at fault.
  static absl::StatusOr<Checkpoint> Open(FileSystem& files, const std::string& path, int rank = 0,
                                         int ranks = 1);

  const std::string& path() const { return path_; }
  const CheckpointRecord& record() const { return record_; }
  const SavedState* Find(absl::string_view name) const;  // none: nullptr

  // The elements of `wanted`, in its order, to `dst`. NotFound for another name. REQUIRES: `wanted`
  // is inside the state.
  absl::Status ReadPiece(absl::string_view name, const StatePiece& wanted, void* dst) const;
  absl::StatusOr<HostTensor> Read(absl::string_view name) const;

 private:
  struct Place {
    size_t file;  // of files_
    StoredPiece stored;
  };

  Checkpoint() = default;
  absl::Status OpenFiles(FileSystem& files, const std::vector<PiecesFile>& listed);
  absl::Status CheckEntry(const PiecesFile& file, const StoredPiece& stored) const;

  std::string path_;
  CheckpointRecord record_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t, std::less<>> index_;  // state's name -> of record_.states
  std::vector<std::vector<Place>> places_;            // by record_.states
};

// Whether `path` is a checkpoint's folder: it has a manifest.
bool IsCheckpoint(FileSystem& files, const std::string& path);

// The newest complete checkpoint of `folder`; none if there is none. What is passed over on the way
// is logged with the path and the reason. Collective over `group`: rank 0 looks what there is, each
// rank verifies its share of the files, and all take the same. Error: the folder cannot be listed,
// or the ranks lost each other.
absl::StatusOr<std::optional<Checkpoint>> FindNewest(FileSystem& files, const std::string& folder,
                                                     Log& log, RankGroup group = RankGroup());

// Removes all but the `keep` newest complete checkpoints up to step `newest`, the one just written;
// nothing where that one is not complete or another cannot be read now, which is an error.
// What interrupted saves left behind goes too, and what is newer: the run passed it over when it
// resumed. Checksums are not looked at. REQUIRES: keep >= 1.
absl::Status KeepNewest(FileSystem& files, const std::string& folder, int64_t newest, int64_t keep);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CHECKPOINT_CHECKPOINT_H_
