// Files of the repository as seeds of fuzz targets.
//
// Thread-safe. CHECKs that the file is there: it must be among the target's data.
//
//   std::string text = ReadSeedFile("tests/gate", "", "mixture.graph");
#ifndef COLOSSUS_TESTS_FUZZ_SEED_FILES_H_
#define COLOSSUS_TESTS_FUZZ_SEED_FILES_H_

#include <string>

#include "absl/strings/string_view.h"

namespace colossus {

// `folder`: from the repository's root; `part`: a folder in there, or empty.
std::string ReadSeedFile(absl::string_view folder, absl::string_view part, absl::string_view file);

}  // namespace colossus

#endif  // COLOSSUS_TESTS_FUZZ_SEED_FILES_H_
