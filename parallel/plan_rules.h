// PlanRules: the rule table of a plan, from logical axes to mesh axes.
//
// Thread-safety: a plain function.
//
//   ASSIGN_OR_RETURN(Mesh mesh, PlanMesh(plan, config));
//   ASSIGN_OR_RETURN(Graph annotated,
//                    AnnotateShardings(graph, PlanRules(plan, config, mesh), mesh));
#ifndef COLOSSUS_PARALLEL_PLAN_RULES_H_
#define COLOSSUS_PARALLEL_PLAN_RULES_H_

#include "collectives/mesh.h"
#include "parallel/plan.h"
#include "parallel/sharding/rules.h"
#include "shardformer/config.h"

namespace colossus {

// `mesh`: PlanMesh's. Batches are split over data, positions over sequence; heads, the MLP's width
// and the vocabulary over tensor. Between products positions are split over tensor too, unless the
// plan says not to, as far as they divide.
ShardingRules PlanRules(const Plan& plan, const ModelConfig& config, const Mesh& mesh);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PLAN_RULES_H_
