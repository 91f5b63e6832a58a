#include "tensor/passes/dead_code.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace colossus {

absl::StatusOr<Rewritten> DeadCode(const Graph& graph) {
  std::vector<bool> live(graph.values().size(), false);
  for (const Output& output : graph.outputs()) live[output.value] = true;
  for (const State& state : graph.states()) live[state.out] = true;
  // Nodes are topological: backwards, every reader has been seen before what it reads.
  std::vector<bool> keep(graph.nodes().size(), false);
  for (size_t n = graph.nodes().size(); n-- > 0;) {
    const Node& node = graph.nodes()[n];
    keep[n] = std::any_of(node.results.begin(), node.results.end(),
                          [&](ValueId v) { return live[v]; });
    if (!keep[n]) continue;
    for (ValueId v : node.operands) live[v] = true;
  }
  GraphRewriter rewriter(graph);
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    if (keep[n]) rewriter.Keep(static_cast<NodeId>(n));
  }
  return std::move(rewriter).Finish();
}

}  // namespace colossus
