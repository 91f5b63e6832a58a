// RankGraph: from the graph of a whole model to that of one rank of a plan's mesh.
//
// Purpose: what compile.cc does between the passes on the whole graph and the cut into segments:
// annotate by the plan's rules, partition. On one rank the graph stays as it is.
// Thread-safety: plain functions. Ownership: plain values.
//
//   ASSIGN_OR_RETURN(MeshPlace place, MeshPlace::Of(plan, config, rank));
//   ASSIGN_OR_RETURN(Partitioned local,
//                    RankGraph(std::move(graph), {}, plan, config, place));
#ifndef COLOSSUS_PARALLEL_RANK_GRAPH_H_
#define COLOSSUS_PARALLEL_RANK_GRAPH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/mesh.h"
#include "parallel/plan.h"
#include "parallel/sharding/partition.h"
#include "shardformer/config.h"
#include "tensor/graph/graph.h"
#include "tensor/host_tensor.h"
#include "tensor/passes/autodiff.h"

namespace colossus {

// Where a program runs.
struct MeshPlace {
  Mesh mesh;
  int rank = 0;

  // Error: as PlanMesh; InvalidArgument for a rank that the mesh does not have.
  static absl::StatusOr<MeshPlace> Of(const Plan& plan, const ModelConfig& config, int rank);
  bool alone() const { return mesh.ranks() == 1; }
  int stage() const { return static_cast<int>(mesh.Coordinate(rank, "stage")); }
  // No other rank has a part of this one's stage of the model.
  bool alone_in_stage() const { return mesh.ranks() == mesh.SizeOf("stage"); }
};

// `parameters`: gradients of `graph`, if it is differentiated. Error: as PlanRules,
// AnnotateShardings and Partition.
absl::StatusOr<Partitioned> RankGraph(Graph graph,
                                      const std::vector<ParameterGradients>& parameters,
                                      const Plan& plan, const ModelConfig& config,
                                      const MeshPlace& place);

// What a rank is fed with of whole rows [rows, sequence_length]: its positions in the plan's order;
// `padding` where a position has no token.
HostTensor PositionsOf(const HostTensor& rows, int32_t padding, const Plan& plan,
                       const MeshPlace& place);

// The part of a tensor that a slice says, which may reach beyond it: zeros there.
HostTensor CutOut(const HostTensor& whole, const Slice& slice);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_RANK_GRAPH_H_
