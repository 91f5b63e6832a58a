// ZB-H2: more forwards before the first backward, and weight gradients put off twice as long.
//
// Bubble (p - 1)(F + B - 2W) of each stage's own span, at 2p - 1 micro-batches kept. The stages end
// one after another, so the makespan is that of ZB-H1 where the update waits for all of them.
#include "base/status.h"
#include "parallel/pipeline/rounds.h"
#include "parallel/pipeline/schedules.h"

namespace colossus {

absl::StatusOr<Rules> ZbH2Rules(const ScheduleInput& input) {
  RETURN_IF_ERROR(RequireChunks("zb-h2", input.shape, 1, "zb-v for 2"));
  int stages = input.shape.stages;
  auto round = [stages](int stage) {
    return Round{.warm_up = 2 * (stages - stage) - 1, .weight_lag = 2 * stage};
  };
  return RoundRules(input.shape, round, /*split_backward=*/true);
}

}  // namespace colossus
