// V-Half: two chunks in a V, with about half the activations of 1F1B.
//
// Steps of 2 slots down and 1 up keep floor((p + 2) / 2) micro-batches.
#include "base/status.h"
#include "parallel/pipeline/schedules.h"
#include "parallel/pipeline/wave.h"

namespace colossus {

absl::StatusOr<Rules> VHalfRules(const ScheduleInput& input) {
  const PipelineShape& shape = input.shape;
  RETURN_IF_ERROR(RequireChunks("v-half", shape, 2, "1f1b or zb-h1 for 1"));
  Wave wave{.steps = {2, 1, 2, 1}, .first_turn = 1, .last_turn = 2};
  return WaveRules(shape, wave, /*memory_bound=*/(shape.stages + 2) / 2);
}

}  // namespace colossus
