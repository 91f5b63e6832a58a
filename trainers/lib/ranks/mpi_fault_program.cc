// A training run as MPI processes in which rank 2 fails at step 3: field case D1.
//
//   mpirun -n 4 mpi_fault_program error|exception|kill|save|hang
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file_system.h"
#include "base/testing/faulty_file_system.h"
#include "trainers/lib/config.h"
#include "trainers/lib/log.h"
#include "trainers/lib/main.h"
#include "trainers/lib/ranks/launch.h"
#include "trainers/lib/ranks/launcher.h"
#include "trainers/lib/ranks/run_inputs.h"
#include "trainers/lib/ranks/run_layout.h"
#include "trainers/lib/train.h"

namespace colossus {
namespace {

constexpr int64_t kStep = 3;

// Fails behind the first instruction.
class Fails final : public StepObserver {
 public:
  explicit Fails(const std::string& how) : how_(how) {}
  absl::Status After(size_t) override {
    if (how_ == "exception") throw std::runtime_error("thrown on purpose");
    if (how_ == "kill") raise(SIGKILL);
    if (how_ == "hang") {
      for (;;) pause();
    }
    return absl::InternalError("failed on purpose");
  }

 private:
  const std::string how_;
};

int Main(const std::string& how) {
  const bool speaks = LaunchedProcess().rank == 0;
  Log log(speaks ? Log::Stderr() : nullptr, false);
  const std::string out =
      absl::StrCat(std::getenv("TEST_TMPDIR") != nullptr ? std::getenv("TEST_TMPDIR") : "/tmp",
                   "/mpi_fault_", how);
  const absl::StatusOr<Config> config = ReadConfig(
      Trainer::kPretrain,
      {"--preset=gpt2-tiny", "--data=synthetic", "--steps=5", "--precision=fp32",
       "--sequence_length=16", "--global_batch=4", "--threads=1", "--save_every=1", "--out=" + out},
      RealFileSystem());
  CHECK_OK(config);
  const absl::StatusOr<RunLayout> layout = LayoutOf(config->options);
  CHECK_OK(layout);
  JobContext context{*config, log, /*begun=*/false, speaks};
  RunInputs inputs(RealFileSystem(), config->options, log);
  FaultyFileSystem dying(RealFileSystem());
  const absl::StatusOr<int> result =
      RunOnRanks(context, *layout, [&](JobContext& rank, RankGroup group) {
        TrainHooks hooks;
        hooks.matmul_peak = 1e9;
        const bool culprit = group.rank() == 2;
        if (culprit && how != "save") {
          hooks.observer = [&](int64_t step, Program&) -> std::unique_ptr<StepObserver> {
            return step == kStep ? std::make_unique<Fails>(how) : nullptr;
          };
        }
        if (culprit && how == "save") {
          hooks.after_update = [&](int64_t step, Session&) {
            if (step == kStep) dying.Kill();
            return absl::OkStatus();
          };
        }
        FileSystem& files = culprit && how == "save" ? dying : RealFileSystem();
        return TrainRank(files, rank, hooks, *layout, group, inputs);
      });
  std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
  return result.ok() ? *result : 1;
}

}  // namespace
}  // namespace colossus

int main(int argc, char** argv) { return argc == 2 ? colossus::Main(argv[1]) : 2; }
