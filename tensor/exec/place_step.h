// PlaceStep: a step's storages on several tiers, with the copies between them.
//
// Purpose: carries out a placement (placement.h): every stay of a buffer becomes a storage of its
// own, operands and results become those of the stay that covers the instruction, and every load
// and store becomes an instruction, just before or after the one that the stay names. When copies
// run, beside compute, waits say (range_waits.h).
// Thread-safety: a plain function. Ownership: copies what it needs.
//
//   TracedStep traced = TraceStep(step, executables, storage);
//   StepStorage placed = PlaceStep(traced, placement, storage);
#ifndef COLOSSUS_TENSOR_EXEC_PLACE_STEP_H_
#define COLOSSUS_TENSOR_EXEC_PLACE_STEP_H_

#include "tensor/exec/placement.h"
#include "tensor/exec/step_storage.h"
#include "tensor/exec/step_trace.h"

namespace colossus {

// What the disk holds, and stays that go to or come from it, are whole blocks of kDiskAlignment
// bytes. REQUIRES: CheckPlacement accepts `placement`; `traced` is of `storage`.
StepStorage PlaceStep(const TracedStep& traced, const Placement& placement,
                      const StepStorage& storage);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_PLACE_STEP_H_
