// Schedules of one chunk in rounds: round k of a stage is backward k, the weight gradients of some
// backwards before, and the forward that is `warm_up` micro-batches ahead.
//
// Purpose: what 1F1B and the zero-bubble schedules on it share.
// Thread-safety: functions of their arguments. Ownership: none.
//
//   Rules rules = RoundRules(shape, [p](int stage) { return Round{.warm_up = p - stage}; }, false);
#ifndef COLOSSUS_PARALLEL_PIPELINE_ROUNDS_H_
#define COLOSSUS_PARALLEL_PIPELINE_ROUNDS_H_

#include <functional>

#include "parallel/pipeline/schedule.h"

namespace colossus {

// Of a stage.
struct Round {
  int warm_up = 1;     // forwards before the first backward; all of them if there are fewer
  int weight_lag = 0;  // backward-inputs whose weight gradients wait; only of split backwards
};

// REQUIRES: one chunk; warm_up >= 1, weight_lag >= 0.
Rules RoundRules(const PipelineShape& shape, const std::function<Round(int stage)>& round,
                 bool split_backward);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_ROUNDS_H_
