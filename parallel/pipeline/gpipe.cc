// GPipe: all forwards, then all backwards.
//
// Bubble (p - 1)(F + B + W); every micro-batch's activations are kept.
#include "base/status.h"
#include "parallel/pipeline/schedules.h"

namespace colossus {

absl::StatusOr<Rules> GPipeRules(const ScheduleInput& input) {
  RETURN_IF_ERROR(RequireChunks("gpipe", input.shape, 1, "looped or interleaved for more"));
  Rules rules;
  rules.must_run_before = [](const Action& a, const Action& b) {
    return a.kind == ActionKind::kForward && b.kind == ActionKind::kBackward;
  };
  rules.memory_bound.assign(input.shape.stages, input.shape.micro_batches);
  return rules;
}

}  // namespace colossus
