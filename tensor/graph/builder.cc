#include "tensor/graph/builder.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/graph/value_name.h"

namespace colossus {

GraphBuilder::GraphBuilder(absl::string_view name) { graph_.name_ = std::string(name); }

void GraphBuilder::Fail(absl::Status status) {
  CHECK(!status.ok());
  if (status_.ok()) status_ = std::move(status);
}

bool GraphBuilder::Valid(absl::Span<const ValueId> values, absl::string_view where) {
  for (ValueId v : values) {
    if (v >= 0 && v < static_cast<ValueId>(graph_.values_.size())) continue;
    if (status_.ok()) {
      Fail(absl::InvalidArgumentError(
          absl::StrCat(where, ": operand is not a value of graph '", graph_.name_, "'")));
    }
    return false;
  }
  return status_.ok();
}

std::string GraphBuilder::FreeName(absl::string_view wanted) {
  std::string name(wanted);
  while (graph_.by_name_.contains(name)) {
    name = absl::StrCat(wanted, ".", ++next_suffix_[std::string(wanted)]);
  }
  return name;
}

ValueId GraphBuilder::AddValue(absl::string_view wanted, Type type, NodeId producer,
                               int result_index) {
  if (!IsValueName(wanted)) {
    Fail(absl::InvalidArgumentError(absl::StrCat("'", wanted, "' is not a value name")));
    return kNoValue;
  }
  std::string name = FreeName(wanted);
  ValueId id = static_cast<ValueId>(graph_.values_.size());
  graph_.by_name_.emplace(name, id);
  Value value;
  value.name = std::move(name);
  types_.push_back(type);
  value.type = std::move(type);
  value.producer = producer;
  value.result_index = result_index;
  graph_.values_.push_back(std::move(value));
  return id;
}

ValueId GraphBuilder::Feed(absl::string_view name, Type type) {
  if (!status_.ok()) return kNoValue;
  if (graph_.by_name_.contains(std::string(name))) {
    Fail(absl::InvalidArgumentError(absl::StrCat("feed '", name, "' exists already")));
    return kNoValue;
  }
  ValueId id = AddValue(name, std::move(type), kNoNode, 0);
  if (id != kNoValue) graph_.feeds_.push_back(id);
  return id;
}

ValueId GraphBuilder::AddState(StateInfo info, Type type) {
  if (!status_.ok()) return kNoValue;
  if (graph_.by_name_.contains(info.name)) {
    Fail(absl::InvalidArgumentError(absl::StrCat("state '", info.name, "' exists already")));
    return kNoValue;
  }
  ValueId id = AddValue(info.name, std::move(type), kNoNode, 0);
  if (id == kNoValue) return id;
  graph_.state_of_.emplace(id, graph_.states_.size());
  graph_.states_.push_back({std::move(info), id, id});
  return id;
}

void GraphBuilder::UpdateState(ValueId in, ValueId out) {
  if (!Valid({in, out}, "UpdateState")) return;
  auto found = graph_.state_of_.find(in);
  if (found == graph_.state_of_.end()) {
    Fail(absl::InvalidArgumentError(absl::StrCat(
        "'", graph_.values_[in].name, "' is not a state of graph '", graph_.name_, "'")));
    return;
  }
  State& state = graph_.states_[found->second];
  if (graph_.values_[in].type != graph_.values_[out].type) {
    Fail(absl::InvalidArgumentError(absl::StrCat("state '", state.info.name, "' of type ",
                                                 ToString(type(in)), " cannot become ",
                                                 ToString(type(out)))));
  }
  state.out = out;
}

void GraphBuilder::Output(absl::string_view name, ValueId value) {
  if (!Valid({value}, absl::StrCat("output '", name, "'"))) return;
  if (!IsValueName(name) || graph_.FindOutput(name) != kNoValue) {
    Fail(absl::InvalidArgumentError(absl::StrCat("output name '", name, "' is bad or taken")));
    return;
  }
  colossus::Output output;
  output.name = std::string(name);
  output.value = value;
  graph_.outputs_.push_back(std::move(output));
}

absl::StatusOr<Types> GraphBuilder::InferTypes(const Op& op, const ValueIds& operands,
                                               const Attributes& attributes) const {
  Types operand_types;
  operand_types.reserve(operands.size());
  for (ValueId v : operands) operand_types.push_back(graph_.values_[v].type);
  absl::StatusOr<Types> types = op.Infer({operand_types, attributes});
  if (types.ok()) return types;
  return colossus::Annotate(types.status(),
                            absl::StrCat(op.name(), block_.empty() ? "" : " in block ", block_));
}

ValueIds GraphBuilder::AddNode(const Op& op, ValueIds operands, Attributes attributes,
                               const Types& types, const std::vector<std::string>& names) {
  NodeId id = static_cast<NodeId>(graph_.nodes_.size());
  Node node;
  node.op = &op;
  node.attributes = std::move(attributes);
  node.operands = std::move(operands);
  node.block = block_;
  node.clone = clone_;
  for (size_t i = 0; i < types.size(); ++i) {
    ValueId value = AddValue(names[i], types[i], id, static_cast<int>(i));
    if (value == kNoValue) return ValueIds(kMaxResults, kNoValue);
    node.results.push_back(value);
  }
  graph_.nodes_.push_back(std::move(node));
  return graph_.nodes_.back().results;
}

ValueIds GraphBuilder::Apply(const Op& op, ValueIds operands, Attributes attributes,
                             absl::string_view name) {
  const ValueIds failed(kMaxResults, kNoValue);
  if (!Valid(operands, op.name())) return failed;
  absl::StatusOr<Types> types = InferTypes(op, operands, attributes);
  if (!types.ok()) {
    Fail(types.status());
    return failed;
  }
  std::string base =
      name.empty() ? absl::StrCat(block_, block_.empty() ? "" : "/", op.name()) : std::string(name);
  std::vector<std::string> names;
  for (size_t i = 0; i < types->size(); ++i) {
    names.push_back(types->size() == 1 ? base : absl::StrCat(base, ".r", i));
  }
  return AddNode(op, std::move(operands), std::move(attributes), *types, names);
}

ValueIds GraphBuilder::ApplyNamed(const Op& op, ValueIds operands, Attributes attributes,
                                  const std::vector<std::string>& names) {
  const ValueIds failed(std::max<size_t>(kMaxResults, names.size()), kNoValue);
  if (!Valid(operands, op.name())) return failed;
  absl::StatusOr<Types> types = InferTypes(op, operands, attributes);
  if (types.ok() && types->size() != names.size()) {
    types = absl::InvalidArgumentError(
        absl::StrCat(op.name(), " has ", types->size(), " results, named ", names.size()));
  }
  if (!types.ok()) {
    Fail(types.status());
    return failed;
  }
  return AddNode(op, std::move(operands), std::move(attributes), *types, names);
}

void GraphBuilder::Annotate(ValueId value, std::optional<Sharding> sharding,
                            std::optional<Tier> tier) {
  if (!Valid({value}, "Annotate")) return;
  graph_.values_[value].sharding = std::move(sharding);
  graph_.values_[value].tier = tier;
}

void GraphBuilder::Rename(ValueId value, absl::string_view name) {
  if (!Valid({value}, "Rename")) return;
  if (!IsValueName(name) || graph_.values_[value].producer == kNoNode) {
    Fail(absl::InvalidArgumentError(absl::StrCat("cannot rename '", graph_.values_[value].name,
                                                 "' to '", name, "'")));
    return;
  }
  graph_.by_name_.erase(graph_.values_[value].name);
  graph_.values_[value].name = FreeName(name);
  graph_.by_name_.emplace(graph_.values_[value].name, value);
}

const Type& GraphBuilder::type(ValueId value) const {
  static const Type* const kScalar = new Type();
  return value == kNoValue ? *kScalar : types_[value];
}

absl::StatusOr<Graph> GraphBuilder::Build() && {
  RETURN_IF_ERROR(status_);
  return std::move(graph_);
}

}  // namespace colossus
