// PlanOffsets: where in its tier's arena every storage of a step lies.
//
// Purpose: the last step of a memory plan (memory_plan.h). In each tier the homes of states come
// first, by (role, dtype), as they are listed; behind them what lives for a while shares memory
// with what does not live then. In the host arena staging comes before both.
// Thread-safety: a plain function.
//
//   MemoryPlan plan = PlanOffsets(std::move(storage));
#ifndef COLOSSUS_TENSOR_EXEC_PLAN_OFFSETS_H_
#define COLOSSUS_TENSOR_EXEC_PLAN_OFFSETS_H_

#include "tensor/exec/memory_plan.h"
#include "tensor/exec/step_storage.h"

namespace colossus {

// Everything of a plan but `outlasts` and what is waited for later on.
// `limits`: tries hard to stay below these; nullptr: a good try will do.
MemoryPlan PlanOffsets(StepStorage storage, const TierBytes* limits = nullptr);

// Front of the host arena that feeds and fetches take.
int64_t FeedStagingBytes(const StepStorage& storage);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_PLAN_OFFSETS_H_
