// Graph: the intermediate representation that everything else reads and rewrites.
//
// Purpose: a static single assignment graph of dense values. Nodes are topological: a node's
// operands are feeds, states or results of earlier nodes. State (parameters, optimizer state,
// accumulators, caches) enters and leaves as paired values; nothing else is mutable.
// Thread-safety: immutable when built, so any number of threads may read. Ownership: owns its
// values and nodes; ops are singletons. Only GraphBuilder (builder.h) makes graphs; passes build a
// new one with GraphRewriter (rewriter.h).
//
//   for (const Node& node : graph.nodes())
//     for (ValueId v : node.operands) Use(graph.value(v).type);
//   std::string text = ToText(graph);              // tensor/graph/text.h
#ifndef COLOSSUS_TENSOR_GRAPH_GRAPH_H_
#define COLOSSUS_TENSOR_GRAPH_GRAPH_H_

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "tensor/graph/attributes.h"
#include "tensor/graph/sharding.h"
#include "tensor/graph/state.h"
#include "tensor/graph/types.h"
#include "tensor/ops/op.h"

namespace colossus {

struct Value {
  std::string name;            // unique in the graph: [A-Za-z0-9_./-]+
  Type type;
  NodeId producer = kNoNode;   // kNoNode: a feed or the value of a state at the start
  int result_index = 0;        // which result of the producer
  std::optional<Sharding> sharding;
  std::optional<Tier> tier;
};

struct Node {
  const Op* op = nullptr;
  Attributes attributes;
  ValueIds operands, results;
  std::string block;  // "h.3", "embed", "head", ...; "h.3.grad" for a gradient node (block.h)
  int clone = 0;      // 0: original; n: n-th recomputation of it, never merged back
};

// A named result of the graph.
struct Output {
  std::string name;
  ValueId value = kNoValue;
};

class Graph {
 public:
  const std::string& name() const { return name_; }
  const std::deque<Value>& values() const { return values_; }
  const std::deque<Node>& nodes() const { return nodes_; }     // topological
  const std::vector<State>& states() const { return states_; }
  const ValueIds& feeds() const { return feeds_; }
  const std::vector<Output>& outputs() const { return outputs_; }

  const Value& value(ValueId id) const { return values_[id]; }
  const Node& node(NodeId id) const { return nodes_[id]; }
  // kNoValue if there is none.
  ValueId FindValue(absl::string_view name) const;
  // kNoValue if there is none.
  ValueId FindOutput(absl::string_view name) const;
  // nullptr if there is none.
  const State* FindState(absl::string_view name) const;
  // The state whose `in` this value is, or nullptr.
  const State* StateOf(ValueId id) const;

  // For each value the nodes that read it, ascending, each once. Computed by the call: keep it.
  std::vector<std::vector<NodeId>> Uses() const;
  // Types of the operands (results) of a node, in order.
  Types OperandTypes(const Node& node) const;
  Types ResultTypes(const Node& node) const;

 private:
  friend class GraphBuilder;
  friend class GraphTestPeer;  // breaks graphs on purpose, for the verifier's test
  std::string name_;
  // Deques: references to types and nodes stay valid while a builder appends.
  std::deque<Value> values_;
  std::deque<Node> nodes_;
  std::vector<State> states_;
  ValueIds feeds_;
  std::vector<Output> outputs_;
  absl::flat_hash_map<std::string, ValueId> by_name_;
  absl::flat_hash_map<ValueId, size_t> state_of_;  // start value -> index in states_
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_GRAPH_GRAPH_H_
