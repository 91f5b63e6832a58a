// AddWaits: where the two streams of a step wait for each other, and how long memory is theirs.
//
// Purpose: the step between storages and offsets of a memory plan (memory_plan.h). An instruction
// of the link stream waits for all compute before it, so it may use any memory that is free then. A
// compute instruction waits for the latest link instruction that wrote what it reads, or touched
// what it writes, or that its call wants finished; and what a link instruction touches stays alive
// until then. Each stream runs in order, so a wait for an instruction is one for all before it.
// Thread-safety: a plain function.
//
//   ASSIGN_OR_RETURN(StepStorage storage, FindStorage(step, executables, /*overlap=*/true));
//   AddWaits(step, storage);
#ifndef COLOSSUS_TENSOR_EXEC_STREAM_WAITS_H_
#define COLOSSUS_TENSOR_EXEC_STREAM_WAITS_H_

#include <cstdint>
#include <vector>

#include "tensor/exec/step.h"
#include "tensor/exec/step_storage.h"

namespace colossus {

// Sets Instruction::wait of all drafts and extends lifetimes of storages. `storage`: FindStorage's
// of this step.
void AddWaits(const Step& step, StepStorage& storage);

// Per draft: the draft until which, inclusive, what it touches is still in use: of one on the link
// stream, until compute waits for it or for a later one, or its phase ends. REQUIRES: after
// AddWaits.
std::vector<int64_t> InUseUntil(const StepStorage& storage);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_STREAM_WAITS_H_
