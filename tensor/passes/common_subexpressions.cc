#include "tensor/passes/common_subexpressions.h"

#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensor/graph/text.h"

namespace colossus {
namespace {

// Equal for nodes that may merge, and only for them. `operands` are ids in the new graph, where
// equal operands have become one value already.
std::string KeyOf(const Graph& graph, const Node& node, const ValueIds& operands) {
  std::string key = absl::StrCat(node.op->name(), "(", absl::StrJoin(operands, ","), ")",
                                 node.attributes.ToString(), node.clone);
  for (ValueId v : node.results) {
    const Value& value = graph.value(v);
    absl::StrAppend(&key, ";", value.sharding ? ToText(*value.sharding) : "",
                    value.tier ? Name(*value.tier) : "");
  }
  return key;
}

}  // namespace

absl::StatusOr<Rewritten> CommonSubexpressions(const Graph& graph) {
  GraphRewriter rewriter(graph);
  absl::flat_hash_map<std::string, ValueIds> first;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    ValueIds operands;
    for (ValueId v : node.operands) operands.push_back(rewriter.Map(v));
    std::string key = KeyOf(graph, node, operands);
    auto found = first.find(key);
    if (found != first.end()) {
      rewriter.Replace(static_cast<NodeId>(n), found->second);
    } else {
      first.emplace(std::move(key), rewriter.Keep(static_cast<NodeId>(n)));
    }
  }
  return std::move(rewriter).Finish();
}

}  // namespace colossus
