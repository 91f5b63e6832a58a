#include "trainers/lib/run_lock.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainers/lib/checkpoint/checkpoint.h"

namespace colossus {
namespace {

absl::Status InUse(absl::string_view flag, const std::string& path, absl::string_view how) {
  return absl::FailedPreconditionError(
      absl::StrCat(flag, "=", path, " ", how,
                   "; wait until it ends, stop it (SIGTERM makes it save first), or give another ",
                   flag));
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileLock>> LockForRun(FileSystem& files, absl::string_view flag,
                                                     const std::string& path, Log& log) {
  absl::StatusOr<std::unique_ptr<FileLock>> lock = files.Lock(path);
  if (absl::IsUnimplemented(lock.status())) {
    log.Warning(absl::StrCat(flag, "=", path, " cannot be locked (", lock.status().message(),
                             "): see to it that no other run writes there"));
    return std::unique_ptr<FileLock>();
  }
  if (!lock.ok()) return lock.status();
  if (*lock == nullptr) return InUse(flag, path, "is in use by another run");
  return lock;
}

absl::Status CheckOutsideRuns(FileSystem& files, absl::string_view flag, const std::string& path) {
  bool inside = false;
  std::error_code error;
  std::filesystem::path whole = std::filesystem::absolute(path, error);
  if (!error) whole = std::filesystem::weakly_canonical(whole, error);
  if (error) return absl::UnavailableError(absl::StrCat(flag, "=", path, ": ", error.message()));
  std::string at = whole.string();
  while (true) {
    if (IsCheckpoint(files, at)) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, "=", path, inside ? " lies in the checkpoint " : " is the checkpoint ",
                       at, ", which would be damaged; give another ", flag));
    }
    if (inside && files.IsDirectory(CheckpointFolder(at))) {
      const absl::StatusOr<std::unique_ptr<FileLock>> lock = files.Lock(at);
      if (lock.ok() && *lock == nullptr) {
        return InUse(flag, path, absl::StrCat("lies in ", at, ", where a run goes on now"));
      }
    }
    const std::string parent = DirName(at);
    if (parent == at) return absl::OkStatus();
    at = parent;
    inside = true;
  }
}

}  // namespace colossus
