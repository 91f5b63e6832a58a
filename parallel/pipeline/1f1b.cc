// 1F1B: as soon as a backward can run it does, and one forward follows each backward.
//
// Bubble as GPipe, (p - 1)(F + B + W), but stage i (from 0) keeps p - i micro-batches at most.
#include "base/status.h"
#include "parallel/pipeline/rounds.h"
#include "parallel/pipeline/schedules.h"

namespace colossus {

absl::StatusOr<Rules> OneForwardOneBackwardRules(const ScheduleInput& input) {
  RETURN_IF_ERROR(RequireChunks("1f1b", input.shape, 1, "interleaved for more"));
  int stages = input.shape.stages;
  auto round = [stages](int stage) { return Round{.warm_up = stages - stage}; };
  return RoundRules(input.shape, round, /*split_backward=*/false);
}

}  // namespace colossus
