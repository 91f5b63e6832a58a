// PlanRules: the rule table of a plan, from logical axes to mesh axes.
//
// Thread-safety: a plain function.
//
//   ASSIGN_OR_RETURN(Mesh mesh, PlanMesh(plan, config));
//   ASSIGN_OR_RETURN(Graph annotated,
//                    AnnotateShardings(graph, PlanRules(plan, config, mesh, length), mesh));
#ifndef COLOSSUS_PARALLEL_PLAN_RULES_H_
#define COLOSSUS_PARALLEL_PLAN_RULES_H_

#include <cstdint>

#include "collectives/mesh.h"
#include "parallel/plan.h"
#include "parallel/sharding/rules.h"
#include "shardformer/config.h"

namespace colossus {

// `mesh`: PlanMesh's. `length`: positions of a row in the graph. Batches are split over data,
// positions over sequence; heads, the MLP's width and the vocabulary over tensor. Between products
// positions are split over tensor too, if the plan says so or, left to itself, where they divide.
ShardingRules PlanRules(const Plan& plan, const ModelConfig& config, const Mesh& mesh,
                        int64_t length);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PLAN_RULES_H_
