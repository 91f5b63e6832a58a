// Climb: makes an order shorter by moving one action at a time.
//
// Purpose: the last step of a search. The way back from the end of the longest stage, always by
// what an action had to wait for, passes through runs of actions without a gap; only moving one of
// those can help. A move is kept if the order becomes better.
// Thread-safety: functions of their arguments. Ownership: none.
//
//   Climb(actions, costs, limit, /*target=*/bound, /*effort=*/1'000'000, evaluator, orders);
#ifndef COLOSSUS_PARALLEL_PIPELINE_SEARCH_CLIMB_H_
#define COLOSSUS_PARALLEL_PIPELINE_SEARCH_CLIMB_H_

#include <cstdint>
#include <random>

#include "parallel/pipeline/action.h"
#include "parallel/pipeline/costs.h"
#include "parallel/pipeline/search/order_evaluator.h"

namespace colossus {

// Stops when no move helps, when the longest stage is down to `target`, or when the evaluator has
// done `effort` more. REQUIRES: split backwards; `orders` runs, within `limit`.
Score Climb(const PipelineActions& actions, const PipelineCosts& costs, double limit, double target,
            int64_t effort, OrderEvaluator& evaluator, StageOrders& orders);

// Moves `moves` actions, chosen at random, to near places: a start of another climb from orders
// that no single move makes better. What no longer runs stays as it was. REQUIRES: as above.
void Shake(const PipelineActions& actions, const PipelineCosts& costs, double limit, int moves,
           std::mt19937& random, OrderEvaluator& evaluator, StageOrders& orders);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_SEARCH_CLIMB_H_
