#include "trainers/lib/main.h"

#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "trainers/lib/help.h"

namespace colossus {
namespace {

constexpr int kFailed = 1;
constexpr int kRefused = 2;

}  // namespace

int RunTrainer(Trainer trainer, int argc, char** argv, const Job& job) {
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
