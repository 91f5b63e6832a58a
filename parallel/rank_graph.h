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

// Where a program runs: of all ranks or, where stages have meshes of their own, in its stage.
struct MeshPlace {
  Mesh mesh;
  int rank = 0;             // in the mesh
  int first = 0;            // rank of the job that is the mesh's rank 0
  bool own_mesh = false;    // of a stage alone
  int stage_of_mesh = 0;    // if so

  // `rank`: of the job. Error: as PlanMesh; InvalidArgument for a rank that the plan does not have.
  static absl::StatusOr<MeshPlace> Of(const Plan& plan, const ModelConfig& config, int rank);
  int rank_of_job() const { return first + rank; }
  bool alone() const { return mesh.ranks() == 1 && !own_mesh; }
  int stage() const {
    return own_mesh ? stage_of_mesh : static_cast<int>(mesh.Coordinate(rank, "stage"));
  }
  bool several_stages() const { return own_mesh || mesh.SizeOf("stage") > 1; }
  // No other rank has a part of this one's stage of the model, and nothing is padded for others.
  bool alone_in_stage() const { return mesh.ranks() == mesh.SizeOf("stage") && !own_mesh; }
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
