// StepStorage: which buffers a step needs, from when to when, and which values share one.
//
// Purpose: the first half of the memory plan (memory_plan.h): instructions in order whose operands
// and results are storages without offsets.
// Thread-safety: plain values. Ownership: owns everything.
//
//   ASSIGN_OR_RETURN(StepStorage storage, FindStorage(step, executables));
#ifndef COLOSSUS_TENSOR_EXEC_STEP_STORAGE_H_
#define COLOSSUS_TENSOR_EXEC_STEP_STORAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/exec/executable.h"
#include "tensor/exec/memory_plan.h"
#include "tensor/exec/step.h"

namespace colossus {

// Memory that one or more values share.
struct Storage {
  std::string what;
  Tier tier = Tier::kDevice;
  int64_t bytes = 0;              // not aligned
  int64_t first = -1, last = -1;  // instructions, inclusive; first < 0: never written
  int home = -1;                  // index of the state it belongs to, or -1
  int merged_into = -1;           // its bytes are part of that storage
  int64_t offset = 0;             // first byte in merged_into
};

// An instruction before its buffers have offsets.
struct Draft {
  Instruction instruction;
  std::vector<int> operands, results;  // storages
  int workspace = -1;                  // storage
};

struct StepStorage {
  std::vector<StateHome> states;    // in first-use order, not placed
  std::vector<int> state_storage;   // per state
  std::vector<Storage> storages;
  std::vector<Draft> drafts;
  std::vector<size_t> phase_end;    // per phase: one past its last draft
  std::vector<bool> follows;        // per phase: Step::follows

  // The storage whose memory it is in the end.
  int Root(int storage) const {
    while (storages[storage].merged_into >= 0) storage = storages[storage].merged_into;
    return storage;
  }
  // Where its first byte is in Root's memory.
  int64_t OffsetInRoot(int storage) const {
    int64_t offset = 0;
    for (; storages[storage].merged_into >= 0; storage = storages[storage].merged_into) {
      offset += storages[storage].offset;
    }
    return offset;
  }
  // It needs memory of its own that is not a state's.
  bool IsBuffer(const Storage& storage) const {
    return storage.home < 0 && storage.merged_into < 0 && storage.first >= 0;
  }
};

// With `overlap` drafts of link segments and collectives are marked; waits are still to be found
// (stream_waits.h). Errors as PlanMemory.
absl::StatusOr<StepStorage> FindStorage(const Step& step,
                                        const std::vector<Executable>& executables, bool overlap);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_STEP_STORAGE_H_
