// AddLateWaits: what a phase's compute waits for that an earlier phase's link has not finished.
//
// Purpose: gathers at the end of an update need not be waited for before the next one starts; its
// first blocks read what was gathered first. Which phase ran before is known only when it runs, so
// every phase gets waits for all that any phase may have left: where its compute meets memory that
// such an instruction writes, or writes what one reads.
// Thread-safety: a plain function.
//
//   AddLateWaits(plan);       // a plan whose ranges are placed
#ifndef COLOSSUS_TENSOR_EXEC_LATE_WAITS_H_
#define COLOSSUS_TENSOR_EXEC_LATE_WAITS_H_

#include "tensor/exec/memory_plan.h"

namespace colossus {

// Sets MemoryPlan::outlasts and Instruction::late_waits.
void AddLateWaits(MemoryPlan& plan);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_LATE_WAITS_H_
