// The job of //trainers:pretrain: a run from its configuration to the exported model.
//
// Purpose: opens a session, goes on from the newest checkpoint if there is one, runs updates with
// schedule, clipping, validation, metrics, progress and checkpoints, and exports the model. On many
// ranks each runs it; rank 0 alone writes logs, metrics and results.
// Thread-safety: one thread a rank. Everything it needs comes as arguments.
//
//   int main(int argc, char** argv) {
//     return RunTrainer(Trainer::kPretrain, argc, argv, RunPretrain);
//   }
#ifndef COLOSSUS_TRAINERS_LIB_RUN_TRAIN_H_
#define COLOSSUS_TRAINERS_LIB_RUN_TRAIN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "tensor/exec/program.h"
#include "trainers/lib/config/main.h"
#include "trainers/lib/config/run_layout.h"
#include "trainers/lib/ranks/rank_group.h"
#include "trainers/lib/run/run_inputs.h"
#include "trainers/lib/run/session.h"

namespace colossus {

// Each rank has its own.
struct TrainHooks {
  // Looked at before every update and between its micro-batches: the number of a signal that asks
  // the run to save and end, or 0.
  std::function<int()> stop;
  // An update that is under way when `stop` asks is finished if that is expected to take at most
  // this long, else given up: nothing of it stays, and a resumed run computes it.
  double finish_seconds = 10;
  // Gives an observer of update `step`, or null: for injected faults. Asked again when the step is
  // computed again to find what was not finite.
  std::function<std::unique_ptr<StepObserver>(int64_t step, Program& program)> observer;
  // Called before the rows of update `step` are read: for injected faults. An error ends the run.
  std::function<absl::Status(int64_t step)> before_data;
  // Sees the session after every update, before validation and checkpoint. An error ends the run
  // at once, as a crash would: nothing more is written.
  std::function<absl::Status(int64_t step, Session& session)> after_update;
  // Flop/s that utilisation is measured against; none: measured when the run starts.
  std::optional<double> matmul_peak;
};

// On all ranks of the configuration, with the same hooks for each. Returns 0, or 128 + the signal
// that `stop` gave. Sets context.begun when memory is taken. Error: what must be refused, or what
// failed; a failed checkpoint is only logged unless it is the last.
absl::StatusOr<int> Train(FileSystem& files, JobContext& context, const TrainHooks& hooks);

// The same as one rank of several. `inputs`: shared by the ranks of the process. Collective over
// `group`, whose ranks are those of `layout`.
absl::StatusOr<int> TrainRank(FileSystem& files, JobContext& context, const TrainHooks& hooks,
                              const RunLayout& layout, RankGroup group, RunInputs& inputs);

// Train on the real file system, ended by SIGINT or SIGTERM.
absl::StatusOr<int> RunPretrain(JobContext& context);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_RUN_TRAIN_H_
