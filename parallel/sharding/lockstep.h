// Lockstep: runs the local graphs of all ranks of a mesh on one thread, node by node.
//
// Purpose: judges partitioning alone: no threads, no communicators, no plan. The graphs must have
// the same nodes in the same order; a collective is computed from the operands of all its ranks.
// Thread-safety: functions of their arguments.
//
//   std::vector<HostTensors> inputs;   // per rank, every feed and state by name
//   ASSERT_OK_AND_ASSIGN(std::vector<HostTensors> out, RunLockstep(graphs, inputs, mesh));
//   HostTensor whole = Join(parts, shardings, dims, mesh);
#ifndef COLOSSUS_PARALLEL_SHARDING_LOCKSTEP_H_
#define COLOSSUS_PARALLEL_SHARDING_LOCKSTEP_H_

#include <vector>

#include "absl/status/statusor.h"
#include "collectives/mesh.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/sharding.h"
#include "tensor/host_tensor.h"

namespace colossus {

// Outputs and end values of states, per rank. Error: a missing input, graphs that differ, an op
// without a reference kernel.
absl::StatusOr<std::vector<HostTensors>> RunLockstep(const std::vector<Graph>& graphs,
                                                     const std::vector<HostTensors>& inputs,
                                                     const Mesh& mesh);

// The part of `whole` that `rank` holds.
HostTensor PartOf(const HostTensor& whole, const Sharding& sharding, const Mesh& mesh, int rank);

// The tensor of these dims from the ranks' parts, pending sums added up. CHECKs that ranks which
// should hold the same do so to the bit.
HostTensor Join(const std::vector<HostTensor>& parts, const Sharding& sharding, const Dims& dims,
                const Mesh& mesh);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_SHARDING_LOCKSTEP_H_
