// Exact: the shortest order there is, for small pipelines.
//
// Purpose: what a search finds for a few stages and micro-batches is the best, not a good, order.
// Orders are built action by action. What has run so far matters only by how many actions of each
// lane have, when each stage is free, and when messages on the way arrive; of two beginnings with
// the same actions, one that is nowhere later makes the other needless.
// Thread-safety: a function of its arguments. Ownership: none.
//
//   ExactResult best = SolveExactly(actions, costs, limit, Objective::kSpan, known, slack,
//   300'000);
#ifndef COLOSSUS_PARALLEL_PIPELINE_SEARCH_EXACT_H_
#define COLOSSUS_PARALLEL_PIPELINE_SEARCH_EXACT_H_

#include "parallel/pipeline/action.h"
#include "parallel/pipeline/costs.h"
#include "parallel/pipeline/schedule.h"

namespace colossus {

struct ExactResult {
  bool complete = false;  // false: too many beginnings, nothing is known
  StageOrders orders;     // empty: nothing is shorter than `known` by more than `slack`
};

// `limit` is of the activations of each stage, `known` a length by the objective that can be
// reached. Looks at no more than `beginnings`. REQUIRES: split backwards.
ExactResult SolveExactly(const PipelineActions& actions, const PipelineCosts& costs, double limit,
                         Objective objective, double known, double slack, int beginnings);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_SEARCH_EXACT_H_
