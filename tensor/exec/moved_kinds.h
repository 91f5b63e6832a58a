// MovedKinds: what a copy of each buffer of a step counts as.
//
// Purpose: copies are counted by what they carry (Moved, memory_plan.h); of a program and of a
// placement alone they have to be counted alike, so the rule stands once.
// Thread-safety: a plain function.
//
//   std::vector<Moved> kinds = MovedKinds(trace);
//   kinds[stay.buffer];
#ifndef COLOSSUS_TENSOR_EXEC_MOVED_KINDS_H_
#define COLOSSUS_TENSOR_EXEC_MOVED_KINDS_H_

#include <vector>

#include "tensor/exec/memory_plan.h"
#include "tensor/exec/placement.h"

namespace colossus {

// Per buffer. States go by their role; what is no state is a gradient if it crosses phases or is
// what a parameter is updated by, else an activation.
std::vector<Moved> MovedKinds(const StepTrace& trace);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_MOVED_KINDS_H_
