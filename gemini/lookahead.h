// LookAhead: stays of a tier made longer, so that copies run beside compute.
//
// Purpose: PlanStays says what is copied, with stays that are as short as they can be: a load then
// starts when its value is already needed, and memory is wanted while its store still runs. Where
// memory is free, stays are made to begin early enough by virtual time for their loads to be done,
// as late as that allows and in the order of need, and to last until their stores are. Copies of
// one direction run one after another. Where memory is short, the value that is needed first gets
// it. Traffic does not change, and the sum of stays never exceeds the capacity.
// Thread-safety: a plain function. Ownership: changes the stays given.
//
//   LookAhead(device, time, {.capacity = tiers.device, .bytes_per_second = 12e9}, plan.stays);
#ifndef COLOSSUS_GEMINI_LOOKAHEAD_H_
#define COLOSSUS_GEMINI_LOOKAHEAD_H_

#include <cstdint>
#include <vector>

#include "gemini/eviction.h"
#include "gemini/step_time.h"
#include "gemini/tier_objects.h"

namespace colossus {

struct LookAheadOptions {
  int64_t capacity = 0;         // in sum
  double bytes_per_second = 0;  // of a copy, each direction
  double margin = 1.1;          // copies are expected to take so much longer
};

// `stays`: PlanStays's of `objects`. `kept` is set to `last`.
void LookAhead(const TierObjects& objects, const StepTime& time, const LookAheadOptions& options,
               std::vector<TierStay>& stays);

}  // namespace colossus

#endif  // COLOSSUS_GEMINI_LOOKAHEAD_H_
