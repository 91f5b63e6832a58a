// A training run as MPI processes in which rank 2 fails at step 3: field cases D1 and C3.
//
//   mpirun -n 4 mpi_fault_program HOW [OUT BYTES]
//
//   error, exception, kill, hang            in the update
//   load, load_exception                    in the data loader
//   save_exception, save_kill, save_full    in the checkpoint, after BYTES bytes; a run whose disk
//                                           is full goes on
//   stages_...                              the same where the ranks are stages of a pipeline
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file_system.h"
#include "base/testing/faulty_file_system.h"
#include "collectives/launcher.h"
#include "trainers/lib/config/config.h"
#include "trainers/lib/config/log.h"
#include "trainers/lib/config/main.h"
#include "trainers/lib/config/run_layout.h"
#include "trainers/lib/ranks/launch.h"
#include "trainers/lib/run/run_inputs.h"
#include "trainers/lib/run/train.h"

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

// A disk on which, while it is armed, an Append beyond so many bytes does not succeed.
class FailingDisk final : public FaultyFileSystem {
 public:
  FailingDisk(const std::string& how, int64_t bytes)
      : FaultyFileSystem(RealFileSystem()), how_(how), bytes_(bytes) {}

  void Arm(bool armed) { armed_ = armed; }

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    absl::StatusOr<std::unique_ptr<WritableFile>> file = FaultyFileSystem::Create(path);
    if (!file.ok() || !armed_) return file;
    return std::make_unique<File>(*this, *std::move(file));
  }

 private:
  class File final : public WritableFile {
   public:
    File(FailingDisk& disk, std::unique_ptr<WritableFile> file)
        : disk_(disk), file_(std::move(file)) {}
    absl::Status Append(std::span<const char> data) override {
      const auto room = static_cast<size_t>(disk_.bytes_ - disk_.used_);
      if (data.size() <= room) {
        disk_.used_ += std::ssize(data);
        return file_->Append(data);
      }
      const absl::Status status = file_->Append(data.first(room));
      if (disk_.how_ == "save_kill") raise(SIGKILL);
      if (disk_.how_ == "save_exception") throw std::runtime_error("thrown on purpose");
      return status.ok() ? absl::ResourceExhaustedError("no space left on device") : status;
    }
    absl::Status Sync() override { return file_->Sync(); }
    absl::Status Close() override { return file_->Close(); }

   private:
    FailingDisk& disk_;
    const std::unique_ptr<WritableFile> file_;
  };

  const std::string how_;
  const int64_t bytes_;
  int64_t used_ = 0;
  bool armed_ = false;
};

// The hooks of rank 2.
TrainHooks HooksOfCulprit(const std::string& how, FailingDisk& disk) {
  TrainHooks hooks;
  if (absl::StartsWith(how, "load")) {
    hooks.before_data = [how](int64_t step) -> absl::Status {
      if (step != kStep) return absl::OkStatus();
      if (how == "load") return absl::DataLossError("a broken shard");
      throw std::runtime_error("a bad row");
    };
  } else if (absl::StartsWith(how, "save")) {
    hooks.after_update = [&disk](int64_t step, Session&) {
      disk.Arm(step == kStep);
      return absl::OkStatus();
    };
  } else {
    hooks.observer = [how](int64_t step, Program&) -> std::unique_ptr<StepObserver> {
      return step == kStep ? std::make_unique<Fails>(how) : nullptr;
    };
  }
  return hooks;
}

int Main(std::string how, const std::string& out, int64_t bytes) {
  const std::string stages = "stages_";
  std::string mesh = "--mesh=data=4";
  if (absl::StartsWith(how, stages)) {
    how.erase(0, stages.size());
    mesh = "--mesh=stage=4";
  }
  const bool speaks = LaunchedProcess().rank == 0;
  Log log(speaks ? Log::Stderr() : nullptr, false);
  const absl::StatusOr<Config> config =
      ReadConfig(Trainer::kPretrain,
                 {"--preset=gpt2-tiny", "--data=synthetic", "--steps=5", "--precision=fp32",
                  "--sequence_length=16", "--global_batch=4", "--threads=1", "--save_every=1",
                  "--keep=9", "--schedule=constant", "--stall_seconds=10", "--out=" + out, mesh},
                 RealFileSystem());
  CHECK_OK(config);
  const absl::StatusOr<RunLayout> layout = LayoutOf(config->options);
  CHECK_OK(layout);
  JobContext context{*config, log, /*begun=*/false, speaks};
  RunInputs inputs(RealFileSystem(), config->options, log);
  FailingDisk disk(how, bytes);
  const absl::StatusOr<int> result =
      RunOnRanks(context, *layout, [&](JobContext& rank, RankGroup group) {
        const bool culprit = group.rank() == 2;
        TrainHooks hooks = culprit ? HooksOfCulprit(how, disk) : TrainHooks();
        hooks.matmul_peak = 1e9;
        FileSystem& files = culprit ? disk : RealFileSystem();
        return TrainRank(files, rank, hooks, *layout, group, inputs);
      });
  std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
  return result.ok() ? *result : 1;
}

}  // namespace
}  // namespace colossus

int main(int argc, char** argv) {
  if (argc != 2 && argc != 4) return 2;
  const char* folder = std::getenv("TEST_TMPDIR");
  const std::string how = argv[1];
  const std::string out =
      argc == 4 ? argv[2] : absl::StrCat(folder != nullptr ? folder : "/tmp", "/mpi_fault_", how);
  return colossus::Main(how, out, argc == 4 ? std::atoll(argv[3]) : 0);
}
