// GraphBuilder: the only way to make a Graph.
//
// Purpose: adds feeds, states, nodes and outputs in order, infers types, gives unique names.
// Errors are sticky: the first failing call is remembered, later calls do nothing and return
// kNoValue, and Build() reports it; so builders of models read as formulas without a check per
// line.
// Thread-safety: none; one thread. Ownership: owns the graph until Build() moves it out.
//
//   GraphBuilder b("example");
//   ValueId x = b.Feed("x", {DType::kF32, {2, 3}});
//   ValueId w = b.AddState(info, {DType::kF32, {3, 4}});
//   ValueId y = Matmul(b, "m k, k n -> m n", x, w);      // tensor/ops/matmul.h
//   b.Output("y", y);
//   ASSIGN_OR_RETURN(Graph graph, std::move(b).Build());
#ifndef COLOSSUS_TENSOR_GRAPH_BUILDER_H_
#define COLOSSUS_TENSOR_GRAPH_BUILDER_H_

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensor/graph/graph.h"

namespace colossus {

class GraphBuilder {
 public:
  explicit GraphBuilder(absl::string_view name);

  // A value given from outside before each run.
  ValueId Feed(absl::string_view name, Type type);
  // The value of a state at the start; named like the state. Until UpdateState, read only.
  ValueId AddState(StateInfo info, Type type);
  // The state whose start value is `in` leaves the graph as `out` (same type).
  void UpdateState(ValueId in, ValueId out);
  void Output(absl::string_view name, ValueId value);

  // Adds a node. `name`: of the results ("name", or "name.0", "name.1" ... if there are several);
  // empty: block and op name with a number. A name already taken gets a number appended.
  // On error (sticky) the returned ids are kNoValue; there are always at least kMaxResults of them
  // then, so indexing is safe.
  ValueIds Apply(const Op& op, ValueIds operands, Attributes attributes = {},
                 absl::string_view name = "");
  // The same for an op with one result.
  ValueId Apply1(const Op& op, ValueIds operands, Attributes attributes = {},
                 absl::string_view name = "") {
    return Apply(op, std::move(operands), std::move(attributes), name)[0];
  }
  // The same with one name per result, as a pass that copies a node needs it.
  ValueIds ApplyNamed(const Op& op, ValueIds operands, Attributes attributes,
                      const std::vector<std::string>& names);
  static constexpr int kMaxResults = 16;

  // Block tag and clone number given to the nodes added from now on.
  void SetBlock(absl::string_view block) { block_ = std::string(block); }
  const std::string& block() const { return block_; }
  void SetClone(int clone) { clone_ = clone; }

  // Annotations of a value made by this builder.
  void Annotate(ValueId value, std::optional<Sharding> sharding, std::optional<Tier> tier);

  // Gives a node's result another name; one already taken gets a number appended. For passes that
  // know the name only after the value is made.
  void Rename(ValueId value, absl::string_view name);

  // A static scalar type when `value` is kNoValue (after an error), so callers need no check. The
  // reference stays good while nodes are added.
  const Type& type(ValueId value) const;
  // The graph so far, e.g. to look at producers. Outputs and states may be incomplete.
  const Graph& graph() const { return graph_; }

  absl::Status status() const { return status_; }
  // Remembers the first error; later ones are dropped. For model builders' own refusals.
  void Fail(absl::Status status);

  // Moves the graph out. Error: the first error met, or a state updated with another type.
  absl::StatusOr<Graph> Build() &&;

 private:
  std::string FreeName(absl::string_view wanted);
  ValueId AddValue(absl::string_view wanted, Type type, NodeId producer, int result_index);
  bool Valid(absl::Span<const ValueId> values, absl::string_view where);
  absl::StatusOr<Types> InferTypes(const Op& op, const ValueIds& operands,
                                   const Attributes& attributes) const;
  ValueIds AddNode(const Op& op, ValueIds operands, Attributes attributes, const Types& types,
                   const std::vector<std::string>& names);

  Graph graph_;
  std::deque<Type> types_;  // of the graph's values; in a deque, since type() hands out references
  std::string block_;
  int clone_ = 0;
  absl::Status status_;
  absl::flat_hash_map<std::string, int> next_suffix_;
};

// Sets the block tag for a scope and restores the previous one.
class BlockScope {
 public:
  BlockScope(GraphBuilder& builder, absl::string_view block)
      : builder_(builder), previous_(builder.block()) {
    builder_.SetBlock(block);
  }
  ~BlockScope() { builder_.SetBlock(previous_); }
  BlockScope(const BlockScope&) = delete;
  BlockScope& operator=(const BlockScope&) = delete;

 private:
  GraphBuilder& builder_;
  std::string previous_;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_GRAPH_BUILDER_H_
