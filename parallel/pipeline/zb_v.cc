// ZB-V: two chunks in a V, so that the stage that ends the forward begins the backward at once.
//
// No stage waits between its first and last action if all actions take the same time (bubble 0 of
// its own span, from m = 2p on) at p micro-batches kept, spread evenly; messages x 2.
#include "base/status.h"
#include "parallel/pipeline/schedules.h"
#include "parallel/pipeline/wave.h"

namespace colossus {

absl::StatusOr<Rules> ZbVRules(const ScheduleInput& input) {
  const PipelineShape& shape = input.shape;
  RETURN_IF_ERROR(RequireChunks("zb-v", shape, 2, "zb-h1 or zb-h2 for 1"));
  Wave wave{.steps = {1, 2, 4, 2}, .first_turn = 1, .last_turn = 2};
  return WaveRules(shape, wave, /*memory_bound=*/shape.stages);
}

}  // namespace colossus
