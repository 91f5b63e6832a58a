// The nccl backend: ranks drive one GPU each; collectives run on CUDA streams.
//
// Purpose: collectives among GPUs. Reductions promise the same bits for the same run only, not the
// canonical tree; i32 and i64 are exact. Buffers are device memory.
// A rank is a thread or a process: whoever starts the ranks carries the first rank's NcclId to all
// of them (by an InProcessWorld or an MpiWorld, say). Counts are those of NCCL's bandwidth-optimal
// algorithms.
// In builds without --config=cuda every call is Unimplemented.
// Thread-safety: as Communicator. Ownership: communicators own NCCL's; they use the GPU that is
// current in the thread that makes them.
//
//   NcclId id;
//   if (host.rank() == 0) { ASSIGN_OR_RETURN(id, NewNcclId()); }
//   RETURN_IF_ERROR(Broadcast id by `host`);
//   ASSIGN_OR_RETURN(std::unique_ptr<Communicator> gpus, NewNcclCommunicator(id, host));
#ifndef COLOSSUS_COLLECTIVES_NCCL_H_
#define COLOSSUS_COLLECTIVES_NCCL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"

namespace colossus {

struct NcclId {
  char bytes[128] = {};
};

// Error: Unimplemented without CUDA, Unavailable with NCCL's reason.
absl::StatusOr<NcclId> NewNcclId();

// The communicator of rank `host.rank()` of `host.size()`, collective over all of them. `host`
// outlives it and makes subgroups' ids. `check`: ranks compare on the host what they issue before
// each operation, which makes them wait for each other; the same on all ranks.
absl::StatusOr<std::unique_ptr<Communicator>> NewNcclCommunicator(const NcclId& id,
                                                                  Communicator& host,
                                                                  bool check = false);

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_NCCL_H_
