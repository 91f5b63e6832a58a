#include "tensor/graph/graph.h"

namespace colossus {

ValueId Graph::FindValue(absl::string_view name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? kNoValue : it->second;
}

ValueId Graph::FindOutput(absl::string_view name) const {
  for (const Output& output : outputs_) {
    if (output.name == name) return output.value;
  }
  return kNoValue;
}

// The start value of a state has the state's name.
const State* Graph::FindState(absl::string_view name) const {
  ValueId value = FindValue(name);
  return value == kNoValue ? nullptr : StateOf(value);
}

const State* Graph::StateOf(ValueId id) const {
  auto it = state_of_.find(id);
  return it == state_of_.end() ? nullptr : &states_[it->second];
}

std::vector<std::vector<NodeId>> Graph::Uses() const {
  std::vector<std::vector<NodeId>> uses(values_.size());
  for (size_t n = 0; n < nodes_.size(); ++n) {
    for (ValueId v : nodes_[n].operands) {
      if (uses[v].empty() || uses[v].back() != static_cast<NodeId>(n)) {
        uses[v].push_back(static_cast<NodeId>(n));
      }
    }
  }
  return uses;
}

Types Graph::OperandTypes(const Node& node) const {
  Types types;
  types.reserve(node.operands.size());
  for (ValueId v : node.operands) types.push_back(values_[v].type);
  return types;
}

Types Graph::ResultTypes(const Node& node) const {
  Types types;
  types.reserve(node.results.size());
  for (ValueId v : node.results) types.push_back(values_[v].type);
  return types;
}

}  // namespace colossus
