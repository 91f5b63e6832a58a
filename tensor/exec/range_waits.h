// AddRangeWaits: which instructions of a placed plan wait for which of other streams.
//
// Purpose: with placements, memory of three tiers is used by up to seven streams. An instruction
// waits for the latest earlier one of each other stream that touched a byte it touches, if either
// writes it: nothing else orders streams. What an instruction waited for, or those it waited for
// did, is not waited for again. Phases start when all streams are idle, but for loads and reads
// that were started for a phase that follows (OutlastsPhase).
// Thread-safety: a plain function. Cost: O(n log n) in operands, results and pieces of memory.
//
//   AddRangeWaits(plan);      // a plan whose ranges are placed
#ifndef COLOSSUS_TENSOR_EXEC_RANGE_WAITS_H_
#define COLOSSUS_TENSOR_EXEC_RANGE_WAITS_H_

#include "tensor/exec/memory_plan.h"

namespace colossus {

// Sets Instruction::waits.
void AddRangeWaits(MemoryPlan& plan);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_RANGE_WAITS_H_
