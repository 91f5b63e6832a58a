// CheckCopies: whether ranks that hold the same elements of a state hold the same bits.
//
// Purpose: a debug check. Parameters that several ranks hold whole stay the same only as long as
// all of them add up the same gradients; a difference grows silently. This names the first.
// Thread-safety: as the program; all ranks call it together. It reads all states of the rank.
//
//   RETURN_IF_ERROR(CheckCopies(training->program(), training->local_states(), training->zero(),
//                               communicators));
#ifndef COLOSSUS_PARALLEL_CHECK_COPIES_H_
#define COLOSSUS_PARALLEL_CHECK_COPIES_H_

#include <vector>

#include "absl/status/status.h"
#include "parallel/sharding/partition.h"
#include "parallel/zero/layout.h"
#include "tensor/exec/program.h"
#include "tensor/kernels/collective/mesh_communicators.h"

namespace colossus {

// Error: DataLoss naming the state, on the ranks where it differs; those of programs and
// communicators.
absl::Status CheckCopies(Program& program, const std::vector<LocalState>& states,
                         const ZeroLayout& zero, MeshCommunicators& ranks);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_CHECK_COPIES_H_
