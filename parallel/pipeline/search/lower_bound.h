// A length that no order within a memory limit can be under.
//
// Purpose: where a search may stop, and how good its result is.
// Thread-safety: a function of its arguments. Ownership: none.
#ifndef COLOSSUS_PARALLEL_PIPELINE_SEARCH_LOWER_BOUND_H_
#define COLOSSUS_PARALLEL_PIPELINE_SEARCH_LOWER_BOUND_H_

#include "parallel/pipeline/action.h"
#include "parallel/pipeline/costs.h"
#include "parallel/pipeline/schedule.h"

namespace colossus {

// Of Score::longest. The largest of: the work of a stage; the way of the last micro-batch through
// all parts and back; and, with one chunk, the work that a stage has before its last backward-input
// is done, including the weight gradients that memory does not let wait, and the way from there.
double LengthBound(const PipelineActions& actions, const PipelineCosts& costs, double limit,
                   Objective objective);

// Weight gradients that `part` must have done before its last backward-input ends, with one chunk.
int EarlyWeights(const PartCosts& part, int micro_batches, double limit);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_SEARCH_LOWER_BOUND_H_
