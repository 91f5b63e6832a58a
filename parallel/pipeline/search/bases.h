// Orders that a search starts from.
//
// Purpose: families of orders, from few to many micro-batches under way, for Compact to make dense.
// Thread-safety: functions of their arguments. Ownership: none.
#ifndef COLOSSUS_PARALLEL_PIPELINE_SEARCH_BASES_H_
#define COLOSSUS_PARALLEL_PIPELINE_SEARCH_BASES_H_

#include <vector>

#include "parallel/pipeline/action.h"
#include "parallel/pipeline/costs.h"

namespace colossus {

// One micro-batch after the other: what always runs, and in the least memory.
StageOrders OneByOne(const PipelineActions& actions);

// Orders of the placement and shape of `actions`, all different, OneByOne last. Some may keep more
// than `limit` or not run at all. REQUIRES: split backwards.
std::vector<StageOrders> BaseOrders(const PipelineActions& actions, const PipelineCosts& costs,
                                    double limit);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_SEARCH_BASES_H_
