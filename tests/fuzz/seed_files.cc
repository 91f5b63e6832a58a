#include "tests/fuzz/seed_files.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file_system.h"

namespace colossus {

// Tests and `bazel run` start in the root of their data.
std::string ReadSeedFile(absl::string_view folder, absl::string_view part, absl::string_view file) {
  const std::string path =
      JoinPath(folder, part.empty() ? std::string(file) : absl::StrCat(part, "/", file));
  absl::StatusOr<std::string> text = RealFileSystem().ReadFile(path);
  CHECK_OK(text) << "run it by bazel, or in the folder of its runfiles";
  return *std::move(text);
}

}  // namespace colossus
