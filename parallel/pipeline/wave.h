// Waves: schedules of 2 chunks in a V whose micro-batches all follow one pattern.
//
// Purpose: what zb-v, v-half and v-min share. Time is counted in slots, one action each. A
// micro-batch runs down the stages in chunk 0, up again in chunk 1, and back the same way; from one
// stage to the next takes a number of slots of each of the four ways, its step. A new micro-batch
// starts every 6 slots, so in the steady state a stage has six actions in six slots; small steps
// mean short lives of activations. Where the pattern leaves slots empty, at the start and at the
// end, actions move up as far as memory allows (compact.h).
// Thread-safety: functions of their arguments. Ownership: none.
//
//   return WaveRules(shape, {.steps = {1, 1, 1, 1}, .first_turn = 1, .last_turn = 1}, /*bound=*/3);
#ifndef COLOSSUS_PARALLEL_PIPELINE_WAVE_H_
#define COLOSSUS_PARALLEL_PIPELINE_WAVE_H_

#include <array>

#include "parallel/pipeline/action.h"
#include "parallel/pipeline/schedule.h"

namespace colossus {

struct Wave {
  // Slots from one stage to the next: forward of chunk 0, of chunk 1, backward of chunk 1, of 0.
  std::array<int, 4> steps;
  // Slots between the two actions at the last stage: of the forwards, and of the backwards. At the
  // first stage it is the fewest that leave each action of a stage a slot of its own.
  int first_turn = 1, last_turn = 1;
};

// The pattern as it is; empty if the actions of a stage cannot have slots of their own.
// REQUIRES: 2 chunks, kV, split backwards.
StageOrders WaveOrders(const PipelineActions& actions, const Wave& wave);

// With slots filled where the pattern leaves them empty, for actions that all take the same time.
// REQUIRES: 2 chunks; the pattern exists and keeps at most `memory_bound` micro-batches.
Rules WaveRules(const PipelineShape& shape, const Wave& wave, double memory_bound);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_WAVE_H_
