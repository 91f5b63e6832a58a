// //tools:simulate_pipeline, see --help.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "tools/simulate_pipeline.h"

int main(int argc, char** argv) {
  // bazel run starts programs in a folder of its own; files are meant where the user is.
  const char* directory = std::getenv("BUILD_WORKING_DIRECTORY");
  if (directory != nullptr && chdir(directory) != 0) {
    std::fprintf(stderr, "error: cannot enter %s\n", directory);
    return 1;
  }
  std::vector<std::string> arguments(argv + 1, argv + argc);
  colossus::SimulatorOutput output = colossus::RunSimulator(arguments, colossus::RealFileSystem());
  std::fputs(output.errors.c_str(), stderr);
  std::fputs(output.results.c_str(), stdout);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return 1;
  return output.exit_status;
}
