// V-Min: two chunks in a V, with the fewest activations of a wave.
//
// Steps of 1 slot keep floor((p + 4) / 3) micro-batches. A stage whose forward, backward-input and
// backward-weight take different times waits in each micro-batch.
#include "base/status.h"
#include "parallel/pipeline/schedules.h"
#include "parallel/pipeline/wave.h"

namespace colossus {

absl::StatusOr<Rules> VMinRules(const ScheduleInput& input) {
  const PipelineShape& shape = input.shape;
  RETURN_IF_ERROR(RequireChunks("v-min", shape, 2, "1f1b or zb-h1 for 1"));
  Wave wave{.steps = {1, 1, 1, 1}, .first_turn = 1, .last_turn = 1};
  return WaveRules(shape, wave, /*memory_bound=*/(shape.stages + 4) / 3);
}

}  // namespace colossus
