#include "trainers/lib/config/main.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "collectives/launcher.h"
#include "trainers/lib/config/help.h"

namespace colossus {
namespace {

constexpr int kFailed = 1;
constexpr int kRefused = 2;

// How long a waiting thread of the OpenMP run-time spins before it sleeps. Its default outlasts a
// time slice: beside other busy processes an update of a small model took many times as long. The
// run-time reads the variable when it is loaded, so the program starts itself again, once.
constexpr char kSpinVariable[] = "GOMP_SPINCOUNT";
constexpr char kSpins[] = "1000";

void SpinBriefly(char** argv) {
  if (getenv(kSpinVariable) != nullptr || getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (setenv(kSpinVariable, kSpins, /*overwrite=*/1) != 0) return;
  execv("/proc/self/exe", argv);  // on failure: go on, only slower
}

// A standard stream that was closed would leave its number to the next file that is opened, and
// results or log lines would end up in a checkpoint. What takes the number cannot be used either:
// results that go nowhere are a failure.
void OpenMissingStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    static_cast<void>(open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY));  // lowest
  }
}

// A file beyond the limit of the shell (ulimit -f) is an error of the write, like a full disk, and
// not the end of the process.
void IgnoreFileSizeSignal() { signal(SIGXFSZ, SIG_IGN); }

// Data and weights are read where the system maps them: it sends SIGBUS when a file has been cut
// shorter meanwhile, or its disk fails. Only calls that a signal handler may make.
void EndWithBusError(int) {
  constexpr char kText[] =
      "error: a file that is being read was cut shorter or cannot be read any more; what was saved "
      "stays as it is\n";
  (void)!write(STDERR_FILENO, kText, sizeof(kText) - 1);
  _exit(kFailed);
}

// Of processes that a launcher has started, all refuse alike and the first one says why. mpirun
// ends the others as soon as one ends, so each leaves the first one the time to. Who is still there
// then was refused alone, and says so where the launcher is one that would have ended it.
constexpr int kSecondsOfFirst = 5;

void LetTheFirstSpeak(const absl::Status& why) {
  const int rank = LaunchedProcess().rank;
  if (rank == 0) return;
  const bool told_to_end = sleep(kSecondsOfFirst) > 0;
  if (told_to_end || getenv("OMPI_COMM_WORLD_RANK") == nullptr) return;
  Log(Log::Stderr(), /*terminal=*/false).Error(absl::StrCat("rank ", rank, ": ", why.message()));
}

// `status` if everything printed has left the process.
int EndOfOutput(int status, Log& log) {
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written) return status;
  // An earlier write failed, whose reason is gone: another one fails for the same, or for none.
  if (errno == 0 && write(STDOUT_FILENO, "\n", 1) > 0) errno = 0;
  log.Error(absl::StrCat("the results could not be written to standard output",
                         errno != 0 ? absl::StrCat(": ", std::strerror(errno)) : ""));
  return status == 0 ? kFailed : status;
}

}  // namespace

int RunTrainer(Trainer trainer, int argc, char** argv, const Job& job) {
  SpinBriefly(argv);
  OpenMissingStreams();
  IgnoreFileSizeSignal();
  signal(SIGBUS, EndWithBusError);
  EnterUserDirectory();
  // Of several processes that a launcher has started, all refuse alike, and the first one says it.
  const bool speaks = LaunchedProcess().rank == 0;
  Log log(speaks ? Log::Stderr() : nullptr, isatty(STDERR_FILENO) != 0);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  absl::StatusOr<Config> config = ReadConfig(trainer, arguments, RealFileSystem());
  if (!config.ok()) {
    log.Error(std::string(config.status().message()));
    LetTheFirstSpeak(config.status());
    return kRefused;
  }
  if (config->help) {
    if (speaks) std::fputs(HelpText(trainer).c_str(), stdout);
    return EndOfOutput(0, log);
  }
  JobContext context{*config, log, /*begun=*/false, speaks};
  absl::StatusOr<int> result = job(context);
  if (result.ok()) return EndOfOutput(*result, log);
  log.Error(std::string(result.status().message()));
  if (context.begun) return kFailed;
  LetTheFirstSpeak(result.status());
  return kRefused;
}

}  // namespace colossus
