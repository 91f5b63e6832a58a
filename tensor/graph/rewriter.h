// GraphRewriter: old graph in, new graph and value map out, in order.
//
// Purpose: how every pass is written. Walk the old nodes in order; keep each, replace its results
// by other values, drop it, or add nodes around it through builder(). Names, block tags and clone
// numbers of kept nodes stay, so an unchanged graph has unchanged text.
// Thread-safety: none; one thread. Ownership: refers to the old graph, which must outlive it.
//
//   GraphRewriter rewriter(old);                    // feeds and states are mapped already
//   for (NodeId n = 0; n < old.nodes().size(); ++n)
//     if (dead[n]) continue; else rewriter.Keep(n);
//   return std::move(rewriter).Finish();            // maps outputs and state updates
#ifndef COLOSSUS_TENSOR_GRAPH_REWRITER_H_
#define COLOSSUS_TENSOR_GRAPH_REWRITER_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/graph.h"

namespace colossus {

// What a pass returns. value_map[old id] = new id, or kNoValue when the value is gone.
struct Rewritten {
  Graph graph;
  ValueIds value_map;
};

class GraphRewriter {
 public:
  // Copies feeds and states of `old` into the new graph, under the same names; only those states
  // for which `keeps` is true, if it is given.
  explicit GraphRewriter(const Graph& old,
                         const std::function<bool(const State&)>& keeps = nullptr);

  // Copies a node with mapped operands. REQUIRES: all its operands are mapped. Returns the new
  // results.
  ValueIds Keep(NodeId node);
  // Copies a node with other operands (new ids) and a clone number; `suffix` is appended to the
  // result names. The old results are not mapped.
  ValueIds Clone(NodeId node, ValueIds operands, int clone, absl::string_view suffix);
  // From now on old results of `node` stand for these new values (one per result).
  void Replace(NodeId node, const ValueIds& new_values);
  // The output `name` becomes an output `new_name` with this new value, whatever the old value is
  // mapped to.
  void ReplaceOutput(const std::string& name, const std::string& new_name, ValueId new_value) {
    outputs_[name] = {new_name, new_value};
  }
  // The new value of an old one; kNoValue if it is not (yet) mapped.
  ValueId Map(ValueId old_value) const { return map_[old_value]; }

  // Maps the outputs now rather than in Finish, so that a pass may add outputs after them.
  void KeepOutputs();

  const Graph& old() const { return old_; }
  GraphBuilder& builder() { return builder_; }

  // Maps outputs and state updates, builds. Error: an output, or a state's end value, is unmapped.
  absl::StatusOr<Rewritten> Finish() &&;

 private:
  const Graph& old_;
  GraphBuilder builder_;
  ValueIds map_;
  std::map<std::string, Output> outputs_;  // replaced ones by old name
  bool outputs_kept_ = false;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_GRAPH_REWRITER_H_
