// SplitStages: the graph of one rank where stages have meshes of their own.
//
// Purpose: rules, and what they say about values that cross, are made up for the whole graph on the
// mesh of each stage; then the share of this rank's stage is cut out and partitioned alone, so that
// a rank compiles no other stage's part. All ranks find the same messages and layouts.
// Thread-safety: plain functions. Ownership: plain values.
//
//   ASSIGN_OR_RETURN(Partitioned local, SplitStages(graph, parameters, plan, config, place,
//                                                   pipeline));
//   pipeline.messages;   // between all stages
#ifndef COLOSSUS_PARALLEL_STAGES_SPLIT_STAGES_H_
#define COLOSSUS_PARALLEL_STAGES_SPLIT_STAGES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/mesh.h"
#include "parallel/pipeline/messages.h"
#include "parallel/plan.h"
#include "parallel/rank_graph.h"
#include "parallel/sharding/partition.h"
#include "parallel/sharding/rules.h"
#include "parallel/stages/stage_pipeline.h"
#include "shardformer/config.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/sharding.h"
#include "tensor/passes/autodiff.h"

namespace colossus {

// Of each stage its mesh and what it splits.
struct StageRules {
  Mesh mesh;
  int first = 0;  // rank of the job that is the mesh's rank 0
  ShardingRules rules;
};

// Fills in what `pipeline`, cut already, says about stages of different meshes. `parameters`:
// gradients of `graph`, if it is differentiated. `panels`: as PartitionOptions. Error: as
// AnnotateShardings and Partition.
absl::StatusOr<Partitioned> SplitStages(const Graph& graph,
                                        const std::vector<ParameterGradients>& parameters,
                                        const std::vector<StageRules>& stages,
                                        const MeshPlace& place, bool panels,
                                        StagePipeline& pipeline);
// By the rules of a plan.
absl::StatusOr<Partitioned> SplitStages(const Graph& graph,
                                        const std::vector<ParameterGradients>& parameters,
                                        const Plan& plan, const ModelConfig& config,
                                        const MeshPlace& place, StagePipeline& pipeline);

// How the gradient of a parameter arrives at a stage that holds it: split as the parameter, and for
// the ranks that see other tokens a sum, of which the first has all.
Sharding ArrivingGradient(const Sharding& parameter, const Mesh& mesh);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_STAGES_SPLIT_STAGES_H_
