#include "tensor/graph/rewriter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace colossus {

GraphRewriter::GraphRewriter(const Graph& old, const std::function<bool(const State&)>& keeps)
    : old_(old), builder_(old.name()), map_(old.values().size(), kNoValue) {
  for (ValueId v : old.feeds()) map_[v] = builder_.Feed(old.value(v).name, old.value(v).type);
  for (const State& state : old.states()) {
    if (keeps && !keeps(state)) continue;
    map_[state.in] = builder_.AddState(state.info, old.value(state.in).type);
  }
  for (size_t v = 0; v < map_.size(); ++v) {
    const Value& value = old.values()[v];
    if (map_[v] != kNoValue && (value.sharding || value.tier)) {
      builder_.Annotate(map_[v], value.sharding, value.tier);
    }
  }
}

ValueIds GraphRewriter::Keep(NodeId node) {
  ValueIds operands;
  for (ValueId v : old_.node(node).operands) {
    CHECK(map_[v] != kNoValue || !builder_.status().ok())
        << "'" << old_.value(v).name << "' is used but was dropped";
    operands.push_back(map_[v]);
  }
  ValueIds results = Clone(node, std::move(operands), old_.node(node).clone, "");
  Replace(node, results);
  return results;
}

ValueIds GraphRewriter::Clone(NodeId node, ValueIds operands, int clone,
                              absl::string_view suffix) {
  const Node& source = old_.node(node);
  BlockScope scope(builder_, source.block);
  builder_.SetClone(clone);
  std::vector<std::string> names;
  for (ValueId v : source.results) {
    names.push_back(absl::StrCat(old_.value(v).name, suffix));
  }
  ValueIds results =
      builder_.ApplyNamed(*source.op, std::move(operands), source.attributes, names);
  builder_.SetClone(0);
  for (size_t i = 0; i < source.results.size(); ++i) {
    const Value& value = old_.value(source.results[i]);
    if (value.sharding || value.tier) builder_.Annotate(results[i], value.sharding, value.tier);
  }
  return results;
}

void GraphRewriter::Replace(NodeId node, const ValueIds& new_values) {
  const Node& source = old_.node(node);
  CHECK_GE(new_values.size(), source.results.size());
  for (size_t i = 0; i < source.results.size(); ++i) map_[source.results[i]] = new_values[i];
}

void GraphRewriter::KeepOutputs() {
  CHECK(!outputs_kept_);
  outputs_kept_ = true;
  for (const Output& output : old_.outputs()) {
    auto replaced = outputs_.find(output.name);
    if (replaced == outputs_.end()) {
      builder_.Output(output.name, map_[output.value]);
    } else {
      builder_.Output(replaced->second.name, replaced->second.value);
    }
  }
}

absl::StatusOr<Rewritten> GraphRewriter::Finish() && {
  if (!outputs_kept_) KeepOutputs();
  for (const State& state : old_.states()) {
    if (state.out == state.in || map_[state.in] == kNoValue) continue;
    builder_.UpdateState(map_[state.in], map_[state.out]);
  }
  ASSIGN_OR_RETURN(Graph graph, std::move(builder_).Build());
  return Rewritten{std::move(graph), std::move(map_)};
}

}  // namespace colossus
