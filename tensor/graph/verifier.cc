#include "tensor/graph/verifier.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tensor/graph/text.h"
#include "tensor/graph/value_name.h"

namespace colossus {
namespace {

template <typename... Parts>
absl::Status Broken(absl::string_view constraint, const Parts&... parts) {
  return absl::InternalError(absl::StrCat(constraint, ": ", parts...));
}

bool Exists(const Graph& graph, ValueId v) {
  return v >= 0 && v < static_cast<ValueId>(graph.values().size());
}

absl::Status CheckNames(const Graph& graph) {
  absl::flat_hash_set<absl::string_view> seen;
  for (const Value& value : graph.values()) {
    if (!IsValueName(value.name)) {
      return Broken("graph_c1", "'", value.name, "' is not a value name");
    }
    if (!seen.insert(value.name).second) {
      return Broken("graph_c1", "two values are named '", value.name, "'");
    }
  }
  for (size_t v = 0; v < graph.values().size(); ++v) {
    if (graph.FindValue(graph.values()[v].name) != static_cast<ValueId>(v)) {
      return Broken("graph_c1", "'", graph.values()[v].name, "' is not found by its name");
    }
  }
  seen.clear();
  for (const Output& output : graph.outputs()) {
    if (!IsValueName(output.name) || !seen.insert(output.name).second) {
      return Broken("graph_c1", "output name '", output.name, "' is bad or stands twice");
    }
  }
  return absl::OkStatus();
}

// Every value defined exactly once, and its producer record true (graph_c2); operands before use
// (graph_c3). `defined` counts definitions.
absl::Status CheckOrder(const Graph& graph) {
  std::vector<char> defined(graph.values().size(), 0);
  auto define = [&](ValueId v, NodeId producer, size_t index, absl::string_view what) {
    if (!Exists(graph, v)) return Broken("graph_c2", what, " defines value ", v, ", not there");
    const Value& value = graph.value(v);
    if (defined[v]++) return Broken("graph_c2", "'", value.name, "' is defined twice");
    if (value.producer != producer ||
        (producer != kNoNode && value.result_index != static_cast<int>(index))) {
      return Broken("graph_c2", "'", value.name, "' records another producer than ", what);
    }
    return absl::OkStatus();
  };
  for (ValueId v : graph.feeds()) RETURN_IF_ERROR(define(v, kNoNode, 0, "feed"));
  for (const State& state : graph.states()) {
    RETURN_IF_ERROR(define(state.in, kNoNode, 0, "state"));
  }
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (node.op == nullptr) return Broken("graph_c4", "node ", n, " has no op");
    for (ValueId v : node.operands) {
      if (!Exists(graph, v))
        return Broken("graph_c3", "node ", n, " reads value ", v, ", not there");
      if (!defined[v]) {
        return Broken("graph_c3", "node ", n, " (", node.op->name(), ") reads '",
                      graph.value(v).name, "' before it is made");
      }
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      RETURN_IF_ERROR(define(node.results[i], static_cast<NodeId>(n), i,
                             absl::StrCat("node ", n, " (", node.op->name(), ")")));
    }
  }
  for (size_t v = 0; v < defined.size(); ++v) {
    if (!defined[v]) return Broken("graph_c2", "'", graph.values()[v].name, "' is never defined");
  }
  return absl::OkStatus();
}

absl::Status CheckNode(const Graph& graph, const Node& node) {
  Types operands = graph.OperandTypes(node), results = graph.ResultTypes(node);
  absl::StatusOr<Types> inferred = node.op->Infer({operands, node.attributes});
  if (!inferred.ok()) {
    return Broken("graph_c4", ToText(graph, node), ": ", std::string(inferred.status().message()));
  }
  if (*inferred != results) {
    std::string types;
    for (const Type& type : *inferred) absl::StrAppend(&types, " ", ToString(type));
    return Broken("graph_c4", ToText(graph, node), ": the op gives", types);
  }
  FactorRule rule = node.op->Factors({operands, node.attributes});
  if (rule.operands.size() != operands.size() || rule.results.size() != results.size()) {
    return Broken("graph_c7", ToText(graph, node), ": rule '", rule.ToString(),
                  "' has another number of values");
  }
  absl::Status bound = rule.Bind(operands, results);
  if (!bound.ok()) {
    return Broken("graph_c7", ToText(graph, node), ": ", std::string(bound.message()));
  }
  return absl::OkStatus();
}

// Widths with zeros behind them compute the same.
bool MayBePadded(const std::string& axis) { return axis == "vocab" || axis == "mlp"; }

absl::Status CheckRecord(const StateInfo& info, const Type& type) {
  size_t rank = info.global_dims.size();
  if (!info.axes.empty() && info.axes.size() != rank) {
    return Broken("graph_c6", "state '", info.name, "' has ", info.axes.size(), " axes for ", rank,
                  " dims");
  }
  if (rank != 0 && !info.disk_dims.empty() &&
      ElementCount(info.disk_dims) != ElementCount(info.global_dims)) {
    return Broken("graph_c6", "state '", info.name, "' is ", DimsToString(info.global_dims),
                  " but on disk ", DimsToString(info.disk_dims));
  }
  for (size_t d = 0; type.dims.size() == rank && d < rank; ++d) {
    if (type.dims[d] > info.global_dims[d] &&
        !(d < info.axes.size() && MayBePadded(info.axes[d]))) {
      return Broken("graph_c6", "state '", info.name, "' is ", ToString(type), " of global ",
                    DimsToString(info.global_dims));
    }
  }
  if (info.tied_to == info.name) {
    return Broken("graph_c6", "state '", info.name, "' is tied to itself");
  }
  return absl::OkStatus();
}

absl::Status CheckStates(const Graph& graph) {
  absl::flat_hash_set<ValueId> starts, ends;
  for (const State& state : graph.states()) starts.insert(state.in);
  for (const State& state : graph.states()) {
    const Value& in = graph.value(state.in);
    if (state.info.name != in.name) {
      return Broken("graph_c5", "state '", state.info.name, "' starts as '", in.name, "'");
    }
    if (!Exists(graph, state.out)) {
      return Broken("graph_c9", "state '", state.info.name, "' ends in a value not there");
    }
    const Value& out = graph.value(state.out);
    if (out.type != in.type) {
      return Broken("graph_c5", "state '", in.name, "' of type ", ToString(in.type), " ends as ",
                    ToString(out.type));
    }
    if (state.out != state.in && (starts.contains(state.out) || !ends.insert(state.out).second)) {
      return Broken("graph_c5", "state '", in.name, "' ends in '", out.name,
                    "', which is another state's start or end");
    }
    RETURN_IF_ERROR(CheckRecord(state.info, in.type));
  }
  return absl::OkStatus();
}

absl::Status CheckAnnotations(const Value& value) {
  if (!value.sharding) return absl::OkStatus();
  if (value.sharding->dims.size() != value.type.dims.size()) {
    return Broken("graph_c8", "'", value.name, "' of type ", ToString(value.type), " is ",
                  ToText(*value.sharding));
  }
  absl::flat_hash_set<absl::string_view> seen;
  auto check = [&](const AxisNames& axes) {
    for (const std::string& axis : axes) {
      if (!seen.insert(axis).second) {
        return Broken("graph_c8", "'", value.name, "' uses axis '", axis,
                      "' twice: ", ToText(*value.sharding));
      }
    }
    return absl::OkStatus();
  };
  for (const AxisNames& axes : value.sharding->dims) RETURN_IF_ERROR(check(axes));
  return check(value.sharding->partial);
}

}  // namespace

absl::Status Verify(const Graph& graph) {
  RETURN_IF_ERROR(CheckNames(graph));
  RETURN_IF_ERROR(CheckOrder(graph));
  for (const Node& node : graph.nodes()) RETURN_IF_ERROR(CheckNode(graph, node));
  RETURN_IF_ERROR(CheckStates(graph));
  for (const Value& value : graph.values()) RETURN_IF_ERROR(CheckAnnotations(value));
  for (const Output& output : graph.outputs()) {
    if (!Exists(graph, output.value)) {
      return Broken("graph_c9", "output '", output.name, "' is a value not there");
    }
  }
  return absl::OkStatus();
}

}  // namespace colossus
