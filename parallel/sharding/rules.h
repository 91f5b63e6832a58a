// Rules: from logical axes to mesh axes.
//
// Purpose: a model family names the dims of its parameters (StateInfo::axes), feeds and of a few
// values (Value::sharding) by what they are: "batch", "seq", "residual" (positions of the residual
// stream), "attention_seq" (positions inside attention), "heads", "kv_heads", "mlp", "vocab",
// "embed" ... One table per job says which mesh axes split them. Annotate replaces the names, so
// that the graph carries shardings over the mesh: pins for propagation (propagate.h).
// Thread-safety: plain functions. Ownership: plain values.
//
//   ShardingRules rules;
//   rules.parameters["mlp"] = {"tensor"};
//   rules.activations["batch"] = {"data"};
//   ASSIGN_OR_RETURN(Graph annotated, AnnotateShardings(d.graph, rules, mesh));
#ifndef COLOSSUS_PARALLEL_SHARDING_RULES_H_
#define COLOSSUS_PARALLEL_SHARDING_RULES_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/mesh.h"
#include "parallel/sharding/override.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/sharding.h"
#include "tensor/passes/autodiff.h"

namespace colossus {

struct ShardingRules {
  // By logical name, major to minor; a name that is absent is never split.
  std::map<std::string, AxisNames> parameters;   // of states
  std::map<std::string, AxisNames> activations;  // of feeds and annotated values
  std::vector<ShardingOverride> overrides;       // the first that matches counts
  // 2-D: weights of products are split over the first along the dims that the product sums over,
  // over the second along the others; of the dims whose names are listed. Empty: by name alone.
  AxisNames weight_rows, weight_columns;
  std::set<std::string> weight_dims;
};

// The graph with mesh shardings on states, feeds and annotated values; the names are gone. Axes of
// size 1 are left out. Where an activation's extent does not divide, it has fewer axes. Error:
// InvalidArgument naming state or feed, dim, extent and axes where one of theirs does not divide;
// an override that matches no state, or names an axis that the mesh does not have.
absl::StatusOr<Graph> AnnotateShardings(const Graph& graph, const ShardingRules& rules,
                                        const Mesh& mesh);

// How the gradient outputs of an annotated graph lie: as their parameters.
std::map<std::string, Sharding> GradientShardings(
    const Graph& annotated, const std::vector<ParameterGradients>& parameters);

// Whether `name` matches `pattern`.
bool MatchesPattern(absl::string_view pattern, absl::string_view name);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_SHARDING_RULES_H_
