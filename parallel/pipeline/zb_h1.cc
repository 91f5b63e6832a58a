// ZB-H1: 1F1B with weight gradients put off, so that the last ones fill the end of the step.
//
// Stage i (from 0) lets i weight gradients wait: bubble (p - 1)(F + B - W), and every stage keeps
// at most p micro-batches, as many as the first stage of 1F1B.
#include "base/status.h"
#include "parallel/pipeline/rounds.h"
#include "parallel/pipeline/schedules.h"

namespace colossus {

absl::StatusOr<Rules> ZbH1Rules(const ScheduleInput& input) {
  RETURN_IF_ERROR(RequireChunks("zb-h1", input.shape, 1, "zb-v for 2"));
  int stages = input.shape.stages;
  auto round = [stages](int stage) {
    return Round{.warm_up = stages - stage, .weight_lag = stage};
  };
  return RoundRules(input.shape, round, /*split_backward=*/true);
}

}  // namespace colossus
