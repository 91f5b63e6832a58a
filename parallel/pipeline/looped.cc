// Looped (breadth first): all micro-batches through a chunk, then through the next; backwards in
// the opposite order of chunks.
//
// Bubble (p - 1)(F + B + W) / chunks for m >= p, and each chunk's parameters are needed twice in a
// row for all micro-batches, so sharded ones are gathered once; all activations are kept.
#include <cstdint>

#include "parallel/pipeline/schedules.h"

namespace colossus {

absl::StatusOr<Rules> LoopedRules(const ScheduleInput& input) {
  int chunks = input.shape.chunks;
  Rules rules;
  rules.must_run_before = ByKey([chunks](const Action& a) -> int64_t {
    return a.kind == ActionKind::kForward ? a.chunk : 2 * chunks - 1 - a.chunk;
  });
  rules.memory_bound.assign(input.shape.stages, input.shape.micro_batches);
  return rules;
}

}  // namespace colossus
