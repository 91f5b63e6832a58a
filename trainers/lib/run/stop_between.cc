#include "trainers/lib/run/stop_between.h"

#include <algorithm>

#include "base/clock.h"
#include "base/status.h"
#include "parallel/compile.h"

namespace colossus {

StopBetweenMicroBatches::StopBetweenMicroBatches(Program& program, const std::function<int()>& stop,
                                                 double finish_seconds, StepObserver* inner,
                                                 RankGroup group, bool finishes)
    : program_(program),
      stop_(stop),
      finish_seconds_(finish_seconds),
      inner_(inner),
      group_(group),
      finishes_(finishes),
      start_(program.device().clock().Seconds()) {
  for (const Call& call : program.step().calls) {
    if (call.phase == kAccumulatePhase) {
      micro_batches_ = std::max(micro_batches_, call.micro_batch + 1);
    }
  }
}

void StopBetweenMicroBatches::Before(size_t t) {
  if (inner_ != nullptr) inner_->Before(t);
}

bool StopBetweenMicroBatches::TooLong(int done) const {
  if (stop_ == nullptr || stop_() == 0) return false;
  const double each = (program_.device().clock().Seconds() - start_) / done;
  return each * (micro_batches_ - done) > finish_seconds_;
}

absl::Status StopBetweenMicroBatches::After(size_t t) {
  group_.Beat();
  if (inner_ != nullptr) RETURN_IF_ERROR(inner_->After(t));
  if (finishes_) return absl::OkStatus();
  const MemoryPlan& plan = program_.plan();
  if (t + 1 >= plan.phase_end[kAccumulatePhase]) return absl::OkStatus();
  const int done = plan.instructions[t + 1].micro_batch;
  if (done <= plan.instructions[t].micro_batch) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t give_up, group_.Max(TooLong(done) ? 1 : 0, "give up"));
  if (give_up == 0) return absl::OkStatus();
  given_up_ = true;
  return absl::CancelledError("asked to stop");
}

}  // namespace colossus
