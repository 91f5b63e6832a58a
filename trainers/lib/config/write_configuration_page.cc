// Writes docs/configuration.md of the checkout it is run from with `bazel run`, or prints the page
// when run by itself.
#include <cstdlib>
#include <iostream>
#include <string>

#include "absl/status/status.h"
#include "base/file_system.h"
#include "trainers/lib/config/help.h"

int main() {
  const std::string page = colossus::ConfigurationPage();
  const char* checkout = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  if (checkout == nullptr) {
    std::cout << page;
    return 0;
  }
  const std::string path = std::string(checkout) + "/docs/configuration.md";
  const absl::Status status = colossus::RealFileSystem().WriteFileAtomically(path, page);
  if (!status.ok()) std::cerr << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
