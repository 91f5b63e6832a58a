#include "parallel/pipeline/stage_graph.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/op.h"

namespace colossus {
namespace {

class ShareBuilder {
 public:
  ShareBuilder(const Graph& graph, const StageShare& share)
      : graph_(graph),
        share_(share),
        builder_(graph.name()),
        uses_(graph.Uses()),
        map_(graph.values().size(), kNoValue) {}

  absl::StatusOr<Graph> Build() {
    AddStates();
    AddFeeds();
    for (size_t n = 0; n < graph_.nodes().size(); ++n) AddNode(static_cast<NodeId>(n));
    for (const State& state : graph_.states()) {
      if (state.out == state.in || share_.states.count(state.info.name) == 0) continue;
      builder_.UpdateState(map_[state.in], map_[state.out]);
    }
    AddOutputs();
    return std::move(builder_).Build();
  }

 private:
  bool Own(NodeId n) const {
    return share_.stage_of_node[static_cast<size_t>(n)] == share_.stage;
  }

  void Annotate(ValueId v) {
    const Value& value = graph_.value(v);
    const auto found = share_.shardings.find(value.name);
    builder_.Annotate(map_[v], found == share_.shardings.end() ? value.sharding : found->second,
                      value.tier);
  }

  void AddStates() {
    for (const State& state : graph_.states()) {
      if (share_.states.count(state.info.name) == 0) continue;
      map_[state.in] = builder_.AddState(state.info, graph_.value(state.in).type);
      Annotate(state.in);
    }
  }

  void AddFeed(ValueId v) {
    if (map_[v] != kNoValue) return;
    map_[v] = builder_.Feed(graph_.value(v).name, graph_.value(v).type);
    Annotate(v);
  }

  void AddFeeds() {
    std::set<ValueId> given;
    for (const Output& output : graph_.outputs()) {
      if (share_.outputs.count(output.name) > 0) given.insert(output.value);
    }
    for (ValueId feed : graph_.feeds()) {
      const std::vector<NodeId>& readers = uses_[feed];
      const bool read =
          std::any_of(readers.begin(), readers.end(), [&](NodeId n) { return Own(n); });
      if (read || given.count(feed) > 0) AddFeed(feed);
    }
    for (const Message& message : share_.messages) {
      if (message.to != share_.stage) continue;
      for (const SentValue& value : message.values) AddFeed(graph_.FindValue(value.name));
    }
  }

  // Whose block and clone number a node has here; nullptr: it is not here.
  const Node* TagsOf(NodeId n) const {
    const Node& node = graph_.node(n);
    if (Own(n) || !node.operands.empty()) return Own(n) ? &node : nullptr;
    for (ValueId v : node.results) {
      for (NodeId reader : uses_[v]) {
        if (Own(reader)) return &graph_.node(reader);
      }
    }
    return nullptr;
  }

  void AddNode(NodeId n) {
    const Node* tags = TagsOf(n);
    if (tags == nullptr) return;
    const Node& node = graph_.node(n);
    ValueIds operands;
    for (ValueId v : node.operands) {
      CHECK(map_[v] != kNoValue) << graph_.value(v).name << " is neither made nor received";
      operands.push_back(map_[v]);
    }
    std::vector<std::string> names;
    for (ValueId v : node.results) names.push_back(graph_.value(v).name);
    builder_.SetBlock(tags->block);
    builder_.SetClone(tags->clone);
    const ValueIds results =
        builder_.ApplyNamed(*node.op, std::move(operands), node.attributes, names);
    for (size_t i = 0; i < node.results.size(); ++i) {
      map_[node.results[i]] = results[i];
      Annotate(node.results[i]);
    }
  }

  void AddOutputs() {
    std::set<std::string> there;
    for (const Output& output : graph_.outputs()) {
      if (share_.outputs.count(output.name) == 0) continue;
      builder_.Output(output.name, map_[output.value]);
      there.insert(output.name);
    }
    for (const Message& message : share_.messages) {
      if (message.from != share_.stage) continue;
      for (const SentValue& value : message.values) {
        if (!there.insert(value.name).second) continue;
        builder_.Output(value.name, map_[graph_.FindValue(value.name)]);
      }
    }
  }

  const Graph& graph_;
  const StageShare& share_;
  GraphBuilder builder_;
  const std::vector<std::vector<NodeId>> uses_;
  ValueIds map_;
};

}  // namespace

absl::StatusOr<Graph> StageGraph(const Graph& graph, const StageShare& share) {
  CHECK_EQ(share.stage_of_node.size(), graph.nodes().size());
  return ShareBuilder(graph, share).Build();
}

}  // namespace colossus
