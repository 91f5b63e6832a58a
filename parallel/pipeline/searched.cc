// Searched: the order that a search finds for the times and under the memory limit.
//
// Never longer than the best fixed schedule with the same chunks that keeps to the limit. With
// several chunks it chooses between loop and V.
#include <algorithm>
#include <vector>

#include "base/status.h"
#include "parallel/pipeline/schedules.h"
#include "parallel/pipeline/search/search.h"

namespace colossus {

absl::StatusOr<Rules> SearchedRules(const ScheduleInput& input) {
  ASSIGN_OR_RETURN(SearchResult found, SearchOrder(input));
  PipelineActions actions(input.shape, found.placement, /*split_backward=*/true);
  PipelineCosts units = UniformCosts(input.shape, StageCosts());
  Rules rules;
  rules.placement = found.placement;
  rules.split_backward = true;
  rules.must_run_before = InOrder(actions, found.orders);
  for (const std::vector<int>& order : found.orders) {
    rules.memory_bound.push_back(PeakActivation(actions, units, order));
  }
  return rules;
}

}  // namespace colossus
