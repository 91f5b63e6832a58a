// Files that a job writes at its end, tried at its start.
//
// Purpose: a name that cannot be written, or that another file has, is refused before the work and
// not after it.
// Thread-safe: functions of their arguments.
//
//   RETURN_IF_ERROR(TryOutputFile(files, "--profile_file", options.profile_file, "{"));
#ifndef COLOSSUS_TRAINERS_LIB_REPORT_OUTPUT_FILE_H_
#define COLOSSUS_TRAINERS_LIB_REPORT_OUTPUT_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"

namespace colossus {

// InvalidArgument when `path`, which `flag` ("--metrics") named, is a file that does not begin with
// `opening`: it holds something else, which would be lost. Empty and missing files, and what is no
// file, are good.
absl::Status CheckOpening(FileSystem& files, absl::string_view flag, const std::string& path,
                          absl::string_view opening);

// CheckOpening; then an error, with the flag, when `path` cannot become a file: a folder, a device
// or pipe, a folder that is missing or cannot be written. What `path` holds stays as it is.
absl::Status TryOutputFile(FileSystem& files, absl::string_view flag, const std::string& path,
                           absl::string_view opening);

// InvalidArgument when both flags name one file, which `flag` would replace.
absl::Status CheckOtherFile(absl::string_view flag, const std::string& path,
                            absl::string_view other_flag, const std::string& other);

// The error of a file that cannot be made, with the flag and the remedy.
absl::Status CannotWrite(absl::string_view flag, const std::string& path,
                         const absl::Status& reason);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_REPORT_OUTPUT_FILE_H_
