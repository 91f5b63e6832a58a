#include "trainers/lib/main.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "trainers/lib/help.h"

namespace colossus {
namespace {

constexpr int kFailed = 1;
constexpr int kRefused = 2;

// How long a waiting thread of the OpenMP run-time spins before it sleeps. Its default outlasts a
// time slice: beside one other busy process an update of a small model took 15 times as long. It
// reads the variable when it is loaded, so the program starts itself again, once.
constexpr char kSpinVariable[] = "GOMP_SPINCOUNT";
constexpr char kSpins[] = "1000";

void SpinBriefly(char** argv) {
  if (getenv(kSpinVariable) != nullptr || getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (setenv(kSpinVariable, kSpins, /*overwrite=*/1) != 0) return;
  execv("/proc/self/exe", argv);  // on failure: go on, only slower
}

}  // namespace

int RunTrainer(Trainer trainer, int argc, char** argv, const Job& job) {
  SpinBriefly(argv);
  EnterUserDirectory();
  Log log(Log::Stderr(), isatty(STDERR_FILENO) != 0);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  absl::StatusOr<Config> config = ReadConfig(trainer, arguments, RealFileSystem());
  if (!config.ok()) {
    log.Error(std::string(config.status().message()));
    return kRefused;
  }
  if (config->help) {
    std::fputs(HelpText(trainer).c_str(), stdout);
    return 0;
  }
  JobContext context{*config, log};
  absl::StatusOr<int> result = job(context);
  if (result.ok()) return *result;
  log.Error(std::string(result.status().message()));
  return context.begun ? kFailed : kRefused;
}

}  // namespace colossus
