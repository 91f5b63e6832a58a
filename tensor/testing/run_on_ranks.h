// Runs graphs on the ranks of a mesh, a thread each, and puts sharded values apart and together.
//
// Purpose: a test of anything partitioned: give every rank its graph and its parts of the inputs,
// take the outputs together again, compare with the graph that was not partitioned.
// Thread-safety: reentrant. Ownership: values.
//
//   ASSERT_OK_AND_ASSIGN(std::vector<RankRun> ranks, RunGraphsOnRanks(mesh, graphs, inputs));
//   ASSERT_OK_AND_ASSIGN(HostTensor y, PutTogether(type, sharding, mesh, OutputOf(ranks, "y")));
#ifndef COLOSSUS_TENSOR_TESTING_RUN_ON_RANKS_H_
#define COLOSSUS_TENSOR_TESTING_RUN_ON_RANKS_H_

#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "collectives/mesh.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/sharding.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/collective/mesh_communicators.h"
#include "tensor/kernels/kernel.h"
#include "tensor/kernels/reference/reference.h"

namespace colossus {

// Runs `body` on a thread for each rank, with in-process communicators. Error: of the rank that
// failed first.
absl::Status RunOnRanks(const Mesh& mesh,
                        const std::function<absl::Status(MeshCommunicators&)>& body);

struct RankRun {
  HostTensors outputs;                             // of outputs and states, as Interpret gives them
  std::map<std::string, CollectiveCounts> counts;  // what the rank sent, by axes
};

// Interprets graphs[r] with inputs[r] on rank r; `kernels` computes what is no collective.
absl::StatusOr<std::vector<RankRun>> RunGraphsOnRanks(const Mesh& mesh,
                                                      absl::Span<const Graph> graphs,
                                                      absl::Span<const HostTensors> inputs,
                                                      KernelList kernels = ReferenceKernels());

// That output of all ranks. REQUIRES: every rank has it.
std::vector<HostTensor> OutputOf(absl::Span<const RankRun> ranks, absl::string_view name);

// The elements of a slice.
HostTensor CutSlice(const HostTensor& whole, const Slice& slice);

// The parts of all ranks. Where the sharding is partial, each group's parts sum up to the value:
// random numbers, small integers if `integers`, rounded to its dtype, the last one takes the rest
// (exact for integers; else rounded). REQUIRES: CheckSharding accepts.
std::vector<HostTensor> TakeApart(const HostTensor& whole, const Sharding& sharding,
                                  const Mesh& mesh, std::mt19937_64& random, bool integers);

// The whole again: as f64 if the sharding is partial (so the sum is not rounded), else in the
// parts' dtype. Error: ranks that must have the same part have not the same bytes, or a part is of
// another type.
absl::StatusOr<HostTensor> PutTogether(const Type& global, const Sharding& sharding,
                                       const Mesh& mesh, absl::Span<const HostTensor> parts);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_TESTING_RUN_ON_RANKS_H_
