// SearchOrder: the best order found for given times under a memory limit.
//
// Purpose: the schedule `searched`. It tries every fixed schedule that keeps to the limit, then
// families of orders made dense (compact.h), solves small pipelines exactly (exact.h), and climbs
// from the best of what it has (climb.h). So the result is never worse than a fixed schedule with
// the same number of chunks, and the shortest there is for few stages and micro-batches.
// Deterministic: effort is counted, not timed.
// Thread-safety: a function of its arguments. Ownership: none.
//
//   ASSIGN_OR_RETURN(SearchResult found, SearchOrder(input));
#ifndef COLOSSUS_PARALLEL_PIPELINE_SEARCH_SEARCH_H_
#define COLOSSUS_PARALLEL_PIPELINE_SEARCH_SEARCH_H_

#include "absl/status/statusor.h"
#include "parallel/pipeline/action.h"
#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/search/order_evaluator.h"

namespace colossus {

struct SearchResult {
  PartPlacement placement = PartPlacement::kLoop;
  StageOrders orders;  // split backwards
  Score score;
  bool optimal = false;  // no order of micro-batches in turn is shorter by the objective
};

// InvalidArgument: the memory limit is under what one micro-batch needs, which the message tells.
// REQUIRES: a shape and costs that were checked (Simulate does).
absl::StatusOr<SearchResult> SearchOrder(const ScheduleInput& input);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_SEARCH_SEARCH_H_
