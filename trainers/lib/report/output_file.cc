#include "trainers/lib/report/output_file.h"

#include <filesystem>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace colossus {
namespace {

// A device, a pipe, or a link into /proc such as /dev/stdout.
bool IsStream(FileSystem& files, const std::string& path) {
  std::error_code error;
  const std::filesystem::path link = std::filesystem::read_symlink(path, error);
  if (!error && absl::StartsWith(link.native(), "/proc/")) return true;
  return files.Exists(path) && absl::IsFailedPrecondition(files.Map(path).status());
}

}  // namespace

absl::Status CheckOpening(FileSystem& files, absl::string_view flag, const std::string& path,
                          absl::string_view opening) {
  if (!files.Exists(path)) return absl::OkStatus();
  const absl::StatusOr<MappedFile> old = files.Map(path);
  if (!old.ok() || old->size() == 0) return absl::OkStatus();
  const absl::string_view text(old->data(), static_cast<size_t>(old->size()));
  if (absl::StartsWith(text, opening)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      flag, "=", path, " is another file, which would be overwritten; give another ", flag));
}

absl::Status TryOutputFile(FileSystem& files, absl::string_view flag, const std::string& path,
                           absl::string_view opening) {
  absl::Status status;
  if (files.IsDirectory(path)) {
    status = absl::InvalidArgumentError("it is a folder");
  } else if (IsStream(files, path)) {
    status = absl::InvalidArgumentError("it is a device or pipe");
  } else {
    RETURN_IF_ERROR(CheckOpening(files, flag, path, opening));
    const std::string trial = path + ".trial.tmp";
    status = files.Create(trial).status();
    if (status.ok()) status = files.Remove(trial);
  }
  return status.ok() ? status : CannotWrite(flag, path, status);
}

absl::Status CheckOtherFile(absl::string_view flag, const std::string& path,
                            absl::string_view other_flag, const std::string& other) {
  std::error_code missing;  // a file that is not there is no other's
  if (path != other && !std::filesystem::equivalent(path, other, missing)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(flag, "=", path, " is the file of ", other_flag,
                                                 ", which it would replace; give another ", flag));
}

absl::Status CannotWrite(absl::string_view flag, const std::string& path,
                         const absl::Status& reason) {
  return absl::Status(reason.code(),
                      absl::StrCat(flag, "=", path, " cannot be written: ", reason.message(),
                                   "; give the name of a file in a folder that can be written"));
}

}  // namespace colossus
