#include "trainers/lib/checkpoint/run_lock.h"

#include <filesystem>
#include <system_error>
#include <vector>

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

// `path`, which need not exist, in full, and the folders above it, the nearest first.
absl::StatusOr<std::vector<std::string>> WithFoldersAbove(absl::string_view flag,
                                                          const std::string& path) {
  std::error_code error;
  std::filesystem::path whole = std::filesystem::absolute(path, error);
  if (!error) whole = std::filesystem::weakly_canonical(whole, error);
  if (error) return absl::UnavailableError(absl::StrCat(flag, "=", path, ": ", error.message()));
  std::vector<std::string> places = {whole.string()};
  for (std::string above = DirName(places[0]); above != places.back(); above = DirName(above)) {
    places.push_back(above);
  }
  return places;
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

absl::Status CheckOutsideCheckpoints(FileSystem& files, absl::string_view flag,
                                     const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<std::string> places, WithFoldersAbove(flag, path));
  for (size_t i = 0; i < places.size(); ++i) {
    if (!IsCheckpoint(files, places[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        flag, "=", path, i > 0 ? " lies in the checkpoint " : " is the checkpoint ", places[i],
        ", which is to stay as it is; give another ", flag));
  }
  return absl::OkStatus();
}

absl::Status CheckOutsideRuns(FileSystem& files, absl::string_view flag, const std::string& path) {
  RETURN_IF_ERROR(CheckOutsideCheckpoints(files, flag, path));
  ASSIGN_OR_RETURN(const std::vector<std::string> places, WithFoldersAbove(flag, path));
  for (size_t i = 1; i < places.size(); ++i) {
    if (!files.IsDirectory(CheckpointFolder(places[i]))) continue;
    const absl::StatusOr<std::unique_ptr<FileLock>> lock = files.Lock(places[i]);
    if (lock.ok() && *lock == nullptr) {
      return InUse(flag, path, absl::StrCat("lies in ", places[i], ", where a run goes on now"));
    }
  }
  return absl::OkStatus();
}

}  // namespace colossus
