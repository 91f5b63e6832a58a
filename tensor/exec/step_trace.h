// TraceStep: a step's storages as the question that placement.h asks.
//
// Purpose: the bridge between memory plans and placers: every piece of memory that values share
// becomes a traced buffer, every draft a traced instruction.
// Thread-safety: plain functions and values. Ownership: refers to nothing.
//
//   ASSIGN_OR_RETURN(StepStorage storage, FindStorage(step, executables, overlap));
//   AddWaits(step, storage);
//   TracedStep traced = TraceStep(step, executables, storage);
//   ASSIGN_OR_RETURN(Placement placement, placer.Place(traced.trace, tiers));
#ifndef COLOSSUS_TENSOR_EXEC_STEP_TRACE_H_
#define COLOSSUS_TENSOR_EXEC_STEP_TRACE_H_

#include <vector>

#include "tensor/exec/executable.h"
#include "tensor/exec/placement.h"
#include "tensor/exec/step.h"
#include "tensor/exec/step_storage.h"

namespace colossus {

struct TracedStep {
  StepTrace trace;
  std::vector<int> root;    // per buffer: its storage
  std::vector<int> buffer;  // per storage: the buffer that it is part of; -1: never used
};

// Buffers are states in first-use order, then the rest in the order in which storages were made.
// Their bytes are rounded up to kBufferAlignment. REQUIRES: `storage` has its waits
// (stream_waits.h), which say how long communication uses a buffer.
TracedStep TraceStep(const Step& step, const std::vector<Executable>& executables,
                     const StepStorage& storage);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_STEP_TRACE_H_
