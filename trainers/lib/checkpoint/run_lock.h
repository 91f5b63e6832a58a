// Which process writes where: one run a folder, and nobody else inside it.
//
// A run holds the lock of its --out folder and of its metrics file from its start to its end; the
// system takes them back from a process that was killed. Nothing is left in the folder.
// Thread-safe: functions of their arguments. The file system must outlive the locks.
//
//   RETURN_IF_ERROR(CheckOutsideRuns(files, "--out", options.out));
//   ASSIGN_OR_RETURN(std::unique_ptr<FileLock> lock, LockForRun(files, "--out", options.out, log));
#ifndef COLOSSUS_TRAINERS_LIB_CHECKPOINT_RUN_LOCK_H_
#define COLOSSUS_TRAINERS_LIB_CHECKPOINT_RUN_LOCK_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "trainers/lib/config/log.h"

namespace colossus {

// The lock of `path`, a folder or file that exists and that `flag` ("--out") named. Error:
// FailedPrecondition when another run holds it. Null, with a warning in the log, where the file
// system has no locks.
absl::StatusOr<std::unique_ptr<FileLock>> LockForRun(FileSystem& files, absl::string_view flag,
                                                     const std::string& path, Log& log);

// InvalidArgument when `path`, which need not exist, is a checkpoint's folder or lies in one: it
// would be removed with it.
absl::Status CheckOutsideCheckpoints(FileSystem& files, absl::string_view flag,
                                     const std::string& path);

// The same; FailedPrecondition when it lies in the folder of a run that goes on now. `path` itself
// may be a run's folder.
absl::Status CheckOutsideRuns(FileSystem& files, absl::string_view flag, const std::string& path);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CHECKPOINT_RUN_LOCK_H_
