// RunOutput: the --out folder of a run: checkpoints/step-N, and the exported model.
//
// On many ranks each has one, and what is done is done together: rank 0 holds the lock, makes
// folders, removes what is old and exports; all ranks write and read their parts of checkpoints.
// Thread-safe: no; one thread a rank. Collective: all but the const methods that say nothing else.
// Refers to the file system, the log and the communicator, which must outlive it.
//
//   ASSIGN_OR_RETURN(RunOutput output, RunOutput::Open(files, options.run, log, group));
//   if (output.resumed()) RETURN_IF_ERROR(output.Restore(*session));
//   RETURN_IF_ERROR(output.Save(*session, record));
//   RETURN_IF_ERROR(output.Export(*session));
#ifndef COLOSSUS_TRAINERS_LIB_RUN_RUN_OUTPUT_H_
#define COLOSSUS_TRAINERS_LIB_RUN_RUN_OUTPUT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "trainers/lib/checkpoint/checkpoint.h"
#include "trainers/lib/checkpoint/export_run.h"
#include "trainers/lib/config/log.h"
#include "trainers/lib/config/options.h"
#include "trainers/lib/ranks/rank_group.h"
#include "trainers/lib/run/session.h"

namespace colossus {

class RunOutput {
 public:
  // Says in the log what will be saved and where the run starts; locks the folder if it exists.
  // InvalidArgument: run.resume is never and the folder is not empty, or it lies in a checkpoint.
  // FailedPrecondition: another run uses it. DataLoss: it holds checkpoints and all are damaged.
  static absl::StatusOr<RunOutput> Open(FileSystem& files, const Options::Run& options, Log& log,
                                        RankGroup group = RankGroup());

  bool saves() const { return !out_.empty(); }
  // The checkpoint to go on from; null: the run begins.
  const Checkpoint* resumed() const { return resumed_ ? &*resumed_ : nullptr; }
  // Folder of the exported model.
  std::string model_folder() const { return JoinPath(out_, "model"); }
  // For messages: the path of the newest checkpoint of this run, or "none".
  std::string newest() const;

  // Holds the tokenizer kept beside the checkpoints, if there is one, against the session's.
  absl::Status CheckTokenizer(const Session& session) const;
  // Holds the checkpoint's states against the session's. REQUIRES: resumed().
  absl::Status CheckStates(const Session& session) const;
  // Copies this rank's parts of all states in, whatever layout they were saved at. REQUIRES:
  // resumed(), CheckStates passed, allocated.
  absl::Status Restore(Session& session) const;

  // Makes and locks the folder and tries to write in it, so that a run does not compute what it
  // cannot save. Error: it cannot, or another run began there meanwhile; names the folder. Does
  // nothing where nothing is saved.
  absl::Status TryToWrite();

  // Saves all states with `record` (its states are filled in here), then removes old checkpoints.
  // DataLoss: a state holds a value that is not finite; nothing is saved. All ranks get the same
  // error. REQUIRES: saves().
  absl::Status Save(Session& session, CheckpointRecord record);
  // Writes the model as it is now; of many ranks, as the newest checkpoint has it, which must be of
  // now. REQUIRES: saves().
  absl::Status Export(Session& session);

 private:
  RunOutput(FileSystem& files, const Options::Run& options, Log& log, RankGroup group)
      : files_(&files), log_(&log), group_(group), out_(options.out), keep_(options.keep) {}

  // Parts of the above that rank 0 alone does.
  absl::Status LockFolder(const Options::Run& options);
  absl::Status LockNewFolder();
  absl::Status MakeFolder();
  absl::Status KeepTokenizer(const Session& session) const;
  absl::Status ExportFrom(const Session& session, const ParameterReader& read) const;

  FileSystem* files_;
  Log* log_;
  RankGroup group_;
  std::unique_ptr<FileLock> lock_;  // of `out_`
  bool existed_ = false;            // when opened
  std::string out_;  // empty: nothing is saved
  int64_t keep_;
  std::optional<Checkpoint> resumed_;
  std::string newest_;  // path; empty: none
};

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_RUN_RUN_OUTPUT_H_
