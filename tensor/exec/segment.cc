#include "tensor/exec/segment.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/graph/builder.h"

namespace colossus {
namespace {

int PartOfValue(const Graph& graph, const std::vector<int>& part_of, ValueId v) {
  NodeId producer = graph.value(v).producer;
  return producer == kNoNode ? -1 : part_of[producer];
}

// A state's end value is made by a part that no reader of its start value comes after.
absl::Status CheckStates(const Graph& graph, const std::vector<int>& part_of,
                         const std::vector<int>& last_reader) {
  for (const State& state : graph.states()) {
    if (state.out == state.in) continue;
    int update = PartOfValue(graph, part_of, state.out);
    if (update < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "cut: the end value of state '", state.info.name, "' is not made by any node"));
    }
    if (last_reader[state.in] > update) {
      return absl::InvalidArgumentError(absl::StrCat(
          "cut: state '", state.info.name, "' is updated in part ", update, " and read in part ",
          last_reader[state.in]));
    }
  }
  return absl::OkStatus();
}

// Feeds find their sources by name, so the name of an output must not be another value's.
absl::Status CheckOutputs(const Graph& graph) {
  for (const Output& output : graph.outputs()) {
    if (graph.value(output.value).producer == kNoNode) {
      return absl::InvalidArgumentError(
          absl::StrCat("cut: output '", output.name, "' is not made by any node"));
    }
    ValueId named = graph.FindValue(output.name);
    if (named != kNoValue && named != output.value) {
      return absl::InvalidArgumentError(
          absl::StrCat("cut: output '", output.name, "' has the name of another value; it is '",
                       graph.value(output.value).name, "'"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCut(const Graph& graph, const std::vector<int>& part_of) {
  for (size_t n = 0; n < part_of.size(); ++n) {
    if (part_of[n] < 0) return absl::InvalidArgumentError("cut: part indices start at 0");
    for (ValueId v : graph.nodes()[n].operands) {
      if (PartOfValue(graph, part_of, v) <= part_of[n]) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "cut: '", graph.value(v).name, "' is made in part ", PartOfValue(graph, part_of, v),
          " and read in part ", part_of[n]));
    }
  }
  return CheckOutputs(graph);
}

// Last part that reads each value; -1 if none does.
std::vector<int> LastReader(const Graph& graph, const std::vector<int>& part_of) {
  std::vector<int> last(graph.values().size(), -1);
  for (size_t n = 0; n < part_of.size(); ++n) {
    for (ValueId v : graph.nodes()[n].operands) last[v] = std::max(last[v], part_of[n]);
  }
  return last;
}

class PartBuilder {
 public:
  PartBuilder(const Graph& graph, const std::vector<int>& part_of, int part,
              const std::vector<NodeId>& nodes, const std::vector<int>& last_reader)
      : graph_(graph), part_of_(part_of), part_(part), nodes_(nodes), last_reader_(last_reader),
        builder_(absl::StrCat(graph.name(), "/", part)),
        map_(graph.values().size(), kNoValue) {}

  absl::StatusOr<Graph> Build() {
    for (NodeId n : nodes_) AddNode(n);
    for (const State& state : graph_.states()) {
      if (state.out == state.in) continue;
      if (PartOfValue(graph_, part_of_, state.out) != part_) continue;
      if (map_[state.in] == kNoValue) Import(state.in);
      builder_.UpdateState(map_[state.in], map_[state.out]);
    }
    AddOutputs();
    return std::move(builder_).Build();
  }

 private:
  void Import(ValueId v) {
    const Value& value = graph_.value(v);
    const State* state = graph_.StateOf(v);
    map_[v] = state != nullptr ? builder_.AddState(state->info, value.type)
                               : builder_.Feed(value.name, value.type);
    builder_.Annotate(map_[v], value.sharding, value.tier);
  }

  void AddNode(NodeId n) {
    const Node& node = graph_.node(n);
    ValueIds operands;
    for (ValueId v : node.operands) {
      if (map_[v] == kNoValue) Import(v);
      operands.push_back(map_[v]);
    }
    std::vector<std::string> names;
    for (ValueId v : node.results) names.push_back(graph_.value(v).name);
    builder_.SetBlock(node.block);
    builder_.SetClone(node.clone);
    ValueIds results = builder_.ApplyNamed(*node.op, std::move(operands), node.attributes, names);
    for (size_t i = 0; i < node.results.size(); ++i) {
      const Value& value = graph_.value(node.results[i]);
      map_[node.results[i]] = results[i];
      builder_.Annotate(results[i], value.sharding, value.tier);
    }
  }

  void AddOutputs() {
    for (const Output& output : graph_.outputs()) {
      if (PartOfValue(graph_, part_of_, output.value) == part_) {
        builder_.Output(output.name, map_[output.value]);
      }
    }
    for (NodeId n : nodes_) {
      for (ValueId v : graph_.node(n).results) {
        const std::string& name = graph_.value(v).name;
        // An output of that name is this value: CheckOutputs.
        if (last_reader_[v] > part_ && graph_.FindOutput(name) == kNoValue) {
          builder_.Output(name, map_[v]);
        }
      }
    }
  }

  const Graph& graph_;
  const std::vector<int>& part_of_;
  const int part_;
  const std::vector<NodeId>& nodes_;
  const std::vector<int>& last_reader_;
  GraphBuilder builder_;
  ValueIds map_;
};

}  // namespace

absl::StatusOr<std::vector<Segment>> CutIntoSegments(const Graph& graph,
                                                     const std::vector<int>& part_of) {
  CHECK_EQ(part_of.size(), graph.nodes().size());
  RETURN_IF_ERROR(CheckCut(graph, part_of));
  std::vector<int> last_reader = LastReader(graph, part_of);
  RETURN_IF_ERROR(CheckStates(graph, part_of, last_reader));
  int parts = part_of.empty() ? 0 : *std::max_element(part_of.begin(), part_of.end()) + 1;
  std::vector<std::vector<NodeId>> nodes(parts);
  for (size_t n = 0; n < part_of.size(); ++n) nodes[part_of[n]].push_back(static_cast<NodeId>(n));
  std::vector<Segment> segments;
  for (int part = 0; part < parts; ++part) {
    if (nodes[part].empty()) continue;
    PartBuilder builder(graph, part_of, part, nodes[part], last_reader);
    ASSIGN_OR_RETURN(Graph cut, builder.Build());
    const std::string& block = graph.node(nodes[part][0]).block;
    segments.push_back({block.empty() ? absl::StrCat("part", part) : block,
                        std::make_shared<const Graph>(std::move(cut))});
  }
  return segments;
}

std::vector<int> CutAtBlocks(const Graph& graph) {
  std::vector<int> part_of(graph.nodes().size(), 0);
  for (size_t n = 1; n < part_of.size(); ++n) {
    bool same = graph.nodes()[n].block == graph.nodes()[n - 1].block;
    part_of[n] = part_of[n - 1] + (same ? 0 : 1);
  }
  return part_of;
}

}  // namespace colossus
