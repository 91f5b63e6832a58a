#include "parallel/sharding/rules.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "tensor/graph/mesh_slice.h"
#include "tensor/graph/rewriter.h"
#include "tensor/ops/matmul.h"

namespace colossus {
namespace {

std::string ToString(const AxisNames& axes, const Mesh& mesh) {
  return absl::StrJoin(axes, ", ", [&](std::string* out, const std::string& axis) {
    absl::StrAppend(out, axis, "=", mesh.SizeOf(axis));
  });
}

class Annotation {
 public:
  Annotation(const Graph& graph, const ShardingRules& rules, const Mesh& mesh)
      : graph_(graph),
        rules_(rules),
        mesh_(mesh),
        uses_(graph.Uses()),
        used_(rules.overrides.size(), false) {}

  absl::StatusOr<Sharding> OfState(const State& state);
  absl::StatusOr<Sharding> OfFeed(ValueId feed) const;
  // As many axes as divide; none: the names are of no use under these rules.
  std::optional<Sharding> OfActivation(const Value& value) const;
  absl::Status CheckOverridesUsed() const;

 private:
  // Axes of one logical name that the mesh has and that split anything.
  AxisNames AxesOf(const std::map<std::string, AxisNames>& table, const std::string& name) const {
    auto found = table.find(name);
    return found == table.end() ? AxisNames{} : Splitting(found->second);
  }
  AxisNames Splitting(const AxisNames& axes) const {
    AxisNames splitting;
    for (const std::string& axis : axes) {
      if (mesh_.SizeOf(axis) > 1) splitting.push_back(axis);
    }
    return splitting;
  }
  // Of a weight in a 2-D layout; none: the state is no weight.
  std::optional<Sharding> OfWeight(const State& state) const;
  absl::StatusOr<Sharding> Overridden(const State& state, const ShardingOverride& by) const;
  // Every dim divides and no axis stands twice.
  absl::Status Check(const std::string& what, const Type& type, const Sharding& sharding) const;

  const Graph& graph_;
  const ShardingRules& rules_;
  const Mesh& mesh_;
  const std::vector<std::vector<NodeId>> uses_;
  std::vector<bool> used_;  // by override
};

absl::Status Annotation::Check(const std::string& what, const Type& type,
                               const Sharding& sharding) const {
  std::map<std::string, size_t> seen;
  for (size_t d = 0; d < sharding.dims.size(); ++d) {
    const AxisNames& axes = sharding.dims[d];
    const int64_t parts = mesh_.SizeOf(axes);
    if (type.dims[d] % parts != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "sharding: ", what, " of ", DimsToString(type.dims), " cannot be split into ", parts,
          " parts (", ToString(axes, mesh_), ") along dim ", d, " of extent ", type.dims[d],
          "; use sizes that divide it"));
    }
    for (const std::string& axis : axes) {
      if (!seen.emplace(axis, d).second) {
        return absl::InvalidArgumentError(absl::StrCat("sharding: ", what, " is split over ", axis,
                                                       " along dims ", seen[axis], " and ", d));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Sharding> Annotation::Overridden(const State& state,
                                                const ShardingOverride& by) const {
  Sharding sharding = Replicated(graph_.value(state.in).type.rank());
  if (by.dims.size() > sharding.dims.size()) {
    return absl::InvalidArgumentError(absl::StrCat("sharding: override '", by.pattern, "' has ",
                                                   by.dims.size(), " dims; '", state.info.name,
                                                   "' is ", DimsToString(state.info.global_dims)));
  }
  AxisNames known;  // a stage has its states whole
  for (const MeshAxis& axis : mesh_.axes()) {
    if (axis.name != "stage") known.push_back(axis.name);
  }
  for (size_t d = 0; d < by.dims.size(); ++d) {
    for (const std::string& axis : by.dims[d]) {
      if (std::find(known.begin(), known.end(), axis) != known.end()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("sharding: override '", by.pattern, "' names axis '", axis,
                       "'; the mesh has ", known.empty() ? "none" : absl::StrJoin(known, ", ")));
    }
    sharding.dims[d] = Splitting(by.dims[d]);
  }
  return sharding;
}

std::optional<Sharding> Annotation::OfWeight(const State& state) const {
  const Type& type = graph_.value(state.in).type;
  if (rules_.weight_rows.empty() || type.rank() < 2 || uses_[state.in].empty()) return std::nullopt;
  const Node& reader = graph_.node(uses_[state.in].front());
  if (reader.op != &MatmulOp()) return std::nullopt;
  const Types operands = graph_.OperandTypes(reader);
  const FactorRule rule = reader.op->Factors({operands, reader.attributes});
  const size_t operand = reader.operands[0] == state.in ? 0 : 1;
  Sharding sharding = Replicated(type.rank());
  for (size_t d = 0; d < sharding.dims.size(); ++d) {
    if (!rules_.weight_dims.count(state.info.axes[d])) continue;
    const bool summed = std::find(rule.results[0].begin(), rule.results[0].end(),
                                  rule.operands[operand][d]) == rule.results[0].end();
    AxisNames axes = summed                             ? Splitting(rules_.weight_rows)
                     : state.info.axes[d] == "kv_heads" ? AxesOf(rules_.parameters, "kv_heads")
                                                        : Splitting(rules_.weight_columns);
    if (type.dims[d] % mesh_.SizeOf(axes) == 0) sharding.dims[d] = std::move(axes);
  }
  return sharding;
}

absl::StatusOr<Sharding> Annotation::OfState(const State& state) {
  Sharding sharding = Replicated(graph_.value(state.in).type.rank());
  bool overridden = false;
  for (size_t i = 0; i < rules_.overrides.size(); ++i) {
    if (!MatchesPattern(rules_.overrides[i].pattern, state.info.name)) continue;
    used_[i] = true;
    if (overridden) continue;
    overridden = true;
    ASSIGN_OR_RETURN(sharding, Overridden(state, rules_.overrides[i]));
  }
  if (std::optional<Sharding> weight = OfWeight(state); weight && !overridden) {
    sharding = *std::move(weight);
  } else if (!overridden) {
    // A cache holds activations: its rows and heads lie as theirs.
    const auto& table = state.info.role == Role::kCache ? rules_.activations : rules_.parameters;
    for (size_t d = 0; d < state.info.axes.size(); ++d) {
      sharding.dims[d] = AxesOf(table, state.info.axes[d]);
    }
  }
  RETURN_IF_ERROR(
      Check(absl::StrCat("'", state.info.name, "'"), graph_.value(state.in).type, sharding));
  return sharding;
}

absl::StatusOr<Sharding> Annotation::OfFeed(ValueId feed) const {
  const Value& value = graph_.value(feed);
  Sharding sharding = Replicated(value.type.rank());
  if (!value.sharding) return sharding;
  for (size_t d = 0; d < sharding.dims.size(); ++d) {
    for (const std::string& name : value.sharding->dims[d]) {
      sharding.dims[d] = AxesOf(rules_.activations, name);
    }
  }
  RETURN_IF_ERROR(Check(absl::StrCat("feed '", value.name, "'"), value.type, sharding));
  return sharding;
}

std::optional<Sharding> Annotation::OfActivation(const Value& value) const {
  Sharding sharding = Replicated(value.type.rank());
  for (size_t d = 0; d < sharding.dims.size(); ++d) {
    AxisNames axes;
    for (const std::string& name : value.sharding->dims[d]) {
      if (absl::StartsWith(name, "product_") && !rules_.activations.count(name)) {
        return std::nullopt;
      }
      axes = AxesOf(rules_.activations, name);
    }
    while (value.type.dims[d] % mesh_.SizeOf(axes) != 0) axes.pop_back();
    sharding.dims[d] = std::move(axes);
  }
  return sharding;
}

absl::Status Annotation::CheckOverridesUsed() const {
  for (size_t i = 0; i < used_.size(); ++i) {
    if (used_[i]) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "sharding: override '", rules_.overrides[i].pattern, "' matches no state of the model"));
  }
  return absl::OkStatus();
}

}  // namespace

bool MatchesPattern(absl::string_view pattern, absl::string_view name) {
  // Where the last "*" stands, and how much of the name it stands for.
  size_t p = 0, n = 0, star = absl::string_view::npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] == name[n] && pattern[p] != '*'))) {
      ++p, ++n;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (star != absl::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::map<std::string, Sharding> GradientShardings(
    const Graph& annotated, const std::vector<ParameterGradients>& parameters) {
  std::map<std::string, Sharding> shardings;
  for (const ParameterGradients& parameter : parameters) {
    const ValueId state = annotated.FindState(parameter.state)->in;
    for (const std::string& output : parameter.outputs) {
      shardings[output] = *annotated.value(state).sharding;
    }
  }
  return shardings;
}

absl::StatusOr<Graph> AnnotateShardings(const Graph& graph, const ShardingRules& rules,
                                        const Mesh& mesh) {
  Annotation annotation(graph, rules, mesh);
  GraphRewriter rewriter(graph);
  for (size_t n = 0; n < graph.nodes().size(); ++n) rewriter.Keep(static_cast<NodeId>(n));
  GraphBuilder& builder = rewriter.builder();
  for (size_t v = 0; v < graph.values().size(); ++v) {
    const Value& value = graph.values()[v];
    if (!value.sharding) continue;
    builder.Annotate(rewriter.Map(static_cast<ValueId>(v)), annotation.OfActivation(value),
                     value.tier);
  }
  for (ValueId feed : graph.feeds()) {
    ASSIGN_OR_RETURN(Sharding sharding, annotation.OfFeed(feed));
    builder.Annotate(rewriter.Map(feed), std::move(sharding), graph.value(feed).tier);
  }
  for (const State& state : graph.states()) {
    ASSIGN_OR_RETURN(Sharding sharding, annotation.OfState(state));
    for (ValueId v : {state.in, state.out}) {
      builder.Annotate(rewriter.Map(v), sharding, graph.value(v).tier);
    }
  }
  RETURN_IF_ERROR(annotation.CheckOverridesUsed());
  ASSIGN_OR_RETURN(Rewritten result, std::move(rewriter).Finish());
  return std::move(result.graph);
}

}  // namespace colossus
