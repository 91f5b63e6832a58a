#include "parallel/sharding/partition.h"

#include <optional>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "parallel/sharding/axes.h"
#include "parallel/sharding/convert.h"
#include "parallel/sharding/propagate.h"
#include "tensor/graph/block.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/mesh_slice.h"
#include "tensor/graph/text.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/op.h"
#include "tensor/ops/panel_product.h"
#include "tensor/ops/sharded_call.h"

namespace colossus {
namespace {

class Partitioner {
 public:
  Partitioner(const Graph& graph, const PartitionOptions& options)
      : graph_(graph),
        options_(options),
        mesh_(*options.mesh),
        builder_(graph.name()),
        wants_(WantsOf(graph, options.gradients)),
        placed_(graph.values().size()) {
    for (const Output& output : graph.outputs()) outputs_of_[output.value].push_back(output.name);
  }

  absl::StatusOr<Partitioned> Run();

 private:
  // A value in the local graph.
  struct Placed {
    ValueId local = kNoValue;  // none yet: made when read, for nodes without operands
    Sharding sharding;
  };
  // Tags for the nodes that are added on behalf of another.
  struct Tags {
    std::string block;
    int clone = 0;
    bool backward = false;
  };
  static Tags TagsOf(const Node& node) { return {node.block, node.clone, RunsBackward(node)}; }

  void AddFeeds();
  void AddStates();
  absl::Status AddNode(NodeId n);
  void FinishState(const State& state);
  void FinishOutputs();

  ShardRequest RequestOf(const Node& node, const FactorRule& rule) const;
  absl::StatusOr<Attributes> LocalAttributes(const Node& node, const FactorRule& rule,
                                             const std::vector<AxisNames>& axes) const;
  // Adds the local node. `names`: of its results.
  absl::StatusOr<ValueIds> Emit(const Node& node, const FactorRule& rule,
                                const NodeSharding& sharding, ValueIds operands,
                                const std::vector<std::string>& names);
  // A product that goes panel by panel, of operands as they lie.
  std::optional<NodeSharding> PanelOf(const Node& node, const FactorRule& rule) const;
  // Lowers a node whose split has collectives inside; sets how its results come out.
  absl::StatusOr<ValueIds> Expand(const Node& node, const FactorRule& rule, NodeSharding& sharding,
                                  ValueIds operands, const std::vector<std::string>& names);
  // Takes a result as the node made it, and converts it to what is pinned.
  void Place(ValueId value, ValueId made, const Sharding& sharding, const Tags& tags);
  void PlaceOutputs(ValueId value, const Tags& tags);
  // The value in another layout.
  absl::StatusOr<ValueId> Read(ValueId value, const Sharding& wanted, const Tags& reader);
  absl::StatusOr<ValueId> Generate(ValueId value, const Sharding& wanted, const Tags& reader);
  ValueId ConvertValue(ValueId value, ValueId local, const Sharding& from, const Sharding& to,
                       const Tags& tags);
  // REQUIRES: the sharding fits.
  Type LocalTypeOf(ValueId value, const Sharding& sharding) const {
    absl::StatusOr<Type> type = LocalType(graph_.value(value).type, sharding, mesh_);
    CHECK_OK(type.status()) << graph_.value(value).name;
    return *std::move(type);
  }
  // How a pinned value lies in the end, when it is made like this.
  static Sharding Settled(const Want& want, const Sharding& made);

  bool IsGenerator(const Node& node) const {
    return node.operands.empty() && node.results.size() == 1;
  }

  const Graph& graph_;
  const PartitionOptions& options_;
  const Mesh& mesh_;
  GraphBuilder builder_;
  std::vector<std::optional<Want>> wants_;
  std::vector<Placed> placed_;  // by global value
  std::map<ValueId, std::vector<std::string>> outputs_of_;
  std::map<std::string, ValueId> outputs_;  // local, by name
  // Conversions made: by global value, sharding as text, and whether for the backward.
  std::map<std::tuple<ValueId, std::string, bool>, ValueId> converted_;
  Partitioned result_;
};

void Partitioner::AddFeeds() {
  for (ValueId v : graph_.feeds()) {
    const Value& feed = graph_.value(v);
    const Sharding sharding = feed.sharding ? *feed.sharding : Replicated(feed.type.rank());
    placed_[v] = {builder_.Feed(feed.name, LocalTypeOf(v, sharding)), sharding};
    builder_.Annotate(placed_[v].local, sharding, feed.tier);
    result_.feeds[feed.name] = sharding;
  }
}

void Partitioner::AddStates() {
  for (const State& state : graph_.states()) {
    const Value& value = graph_.value(state.in);
    const Sharding sharding = value.sharding ? *value.sharding : Replicated(value.type.rank());
    const Type type = LocalTypeOf(state.in, sharding);
    placed_[state.in] = {builder_.AddState(state.info, type), sharding};
    builder_.Annotate(placed_[state.in].local, sharding, value.tier);
    absl::StatusOr<Slice> slice = SliceOf(value.type.dims, sharding, mesh_, options_.rank);
    CHECK_OK(slice.status()) << value.name;
    result_.states.push_back({state.info, type, sharding, *std::move(slice)});
  }
}

ShardRequest Partitioner::RequestOf(const Node& node, const FactorRule& rule) const {
  ShardRequest request;
  request.node = &node;
  request.rule = &rule;
  request.operand_types = graph_.OperandTypes(node);
  request.mesh = &mesh_;
  for (ValueId v : node.operands) {
    request.operands.push_back(placed_[v].sharding);
    request.states.push_back(graph_.StateOf(v) != nullptr);
  }
  for (ValueId v : node.results) request.results.push_back(wants_[v]);
  return request;
}

absl::StatusOr<Attributes> Partitioner::LocalAttributes(const Node& node, const FactorRule& rule,
                                                        const std::vector<AxisNames>& axes) const {
  std::vector<FactorPart> parts;
  bool split = false;
  for (size_t f = 0; f < axes.size(); ++f) {
    const int64_t extent = rule.factors[f].extent / mesh_.SizeOf(axes[f]);
    parts.push_back({mesh_.IndexIn(options_.rank, axes[f]) * extent, extent});
    split = split || !axes[f].empty();
  }
  if (!split) return node.attributes;
  const Types operands = graph_.OperandTypes(node);
  return node.op->Localize({operands, node.attributes}, parts);
}

absl::StatusOr<ValueIds> Partitioner::Emit(const Node& node, const FactorRule& rule,
                                           const NodeSharding& sharding, ValueIds operands,
                                           const std::vector<std::string>& names) {
  ASSIGN_OR_RETURN(Attributes attributes, LocalAttributes(node, rule, sharding.factors));
  const ValueIds results =
      builder_.ApplyNamed(*node.op, std::move(operands), std::move(attributes), names);
  RETURN_IF_ERROR(builder_.status());
  for (size_t i = 0; i < node.results.size(); ++i) {
    const Type expected = LocalTypeOf(node.results[i], sharding.results[i]);
    if (builder_.type(results[i]) == expected) continue;
    return absl::InternalError(absl::StrCat("its part is ", ToString(builder_.type(results[i])),
                                            ", expected ", ToString(expected)));
  }
  return results;
}

std::optional<NodeSharding> Partitioner::PanelOf(const Node& node, const FactorRule& rule) const {
  if (!options_.panels || node.op != &MatmulOp()) return std::nullopt;
  NodeSharding sharding;
  for (ValueId v : node.operands) {
    if (placed_[v].local == kNoValue || !placed_[v].sharding.partial.empty()) return std::nullopt;
    sharding.operands.push_back(placed_[v].sharding);
  }
  std::optional<Sharding> wanted;
  if (wants_[node.results[0]]) wanted = wants_[node.results[0]]->sharding;
  const std::optional<PanelProduct> product =
      FindPanelProduct(rule, sharding.operands, wanted, mesh_);
  if (!product) return std::nullopt;
  sharding.factors.resize(rule.factors.size());
  sharding.results = {product->y};
  sharding.expands = true;
  if (wanted) sharding.wanted = {*std::move(wanted)};
  return sharding;
}

absl::StatusOr<ValueIds> Partitioner::Expand(const Node& node, const FactorRule& rule,
                                             NodeSharding& sharding, ValueIds operands,
                                             const std::vector<std::string>& names) {
  ShardedCall::Spec spec;
  spec.op = node.op;
  spec.attributes = node.attributes;
  spec.operand_types = graph_.OperandTypes(node);
  spec.rule = rule;
  spec.factor_axes = sharding.factors;
  spec.x = std::move(operands);
  spec.x_shardings = sharding.operands;
  spec.wanted = sharding.wanted;
  spec.mesh = &mesh_;
  spec.rank = options_.rank;
  ShardedCall call(std::move(spec));
  RETURN_IF_ERROR(node.op->Expand(call, builder_));
  RETURN_IF_ERROR(builder_.status());
  ValueIds results;
  for (size_t i = 0; i < node.results.size(); ++i) {
    const ValueId local = call.y(static_cast<int>(i));
    sharding.results[i] = call.y_sharding(static_cast<int>(i));
    if (local == kNoValue ||
        builder_.type(local) != LocalTypeOf(node.results[i], sharding.results[i])) {
      return absl::InternalError(absl::StrCat("result ", i, " of its lowering is missing or is no ",
                                              ToText(sharding.results[i])));
    }
    if (builder_.graph().value(local).producer != kNoNode) builder_.Rename(local, names[i]);
    results.push_back(local);
  }
  return results;
}

ValueId Partitioner::ConvertValue(ValueId value, ValueId local, const Sharding& from,
                                  const Sharding& to, const Tags& tags) {
  BlockScope scope(builder_, tags.block);
  builder_.SetClone(tags.clone);
  absl::StatusOr<ValueId> converted =
      ConvertSharding(builder_, local, graph_.value(value).type, from, to, mesh_, options_.rank);
  builder_.SetClone(0);
  if (!converted.ok()) {
    builder_.Fail(converted.status());
    return kNoValue;
  }
  builder_.Annotate(*converted, to, graph_.value(value).tier);
  return *converted;
}

absl::StatusOr<ValueId> Partitioner::Generate(ValueId value, const Sharding& wanted,
                                              const Tags& reader) {
  const Node& node = graph_.node(graph_.value(value).producer);
  const FactorRule rule = node.op->Factors({{}, node.attributes});
  ShardRequest request = RequestOf(node, rule);
  request.results[0] = Want{wanted, true, false};
  const NodeSharding sharding = ShardNode(request);
  BlockScope scope(builder_, reader.block);
  builder_.SetClone(reader.clone);
  absl::StatusOr<ValueIds> made = Emit(node, rule, sharding, {}, {graph_.value(value).name});
  builder_.SetClone(0);
  RETURN_IF_ERROR(made.status());
  builder_.Annotate((*made)[0], sharding.results[0], graph_.value(value).tier);
  if (sharding.results[0] == wanted) return (*made)[0];
  return ConvertValue(value, (*made)[0], sharding.results[0], wanted, reader);
}

absl::StatusOr<ValueId> Partitioner::Read(ValueId value, const Sharding& wanted,
                                          const Tags& reader) {
  const Placed& placed = placed_[value];
  if (placed.local != kNoValue && placed.sharding == wanted) return placed.local;
  const bool grows =
      placed.local != kNoValue && placed.sharding.partial.empty() &&
      LocalTypeOf(value, wanted).elements() > LocalTypeOf(value, placed.sharding).elements();
  const std::tuple key(value, ToText(wanted), grows && reader.backward);
  auto found = converted_.find(key);
  if (found != converted_.end()) return found->second;
  if (placed.local == kNoValue) {
    ASSIGN_OR_RETURN(ValueId generated, Generate(value, wanted, reader));
    converted_[key] = generated;
    return generated;
  }
  const ValueId converted = ConvertValue(value, placed.local, placed.sharding, wanted, reader);
  RETURN_IF_ERROR(builder_.status());
  converted_[key] = converted;
  return converted;
}

Sharding Partitioner::Settled(const Want& want, const Sharding& made) {
  if (!want.pinned) return made;
  Sharding settled = want.sharding;
  settled.partial.clear();
  if (!want.gradient) return settled;
  const AxisNames split = SplitAxes(settled);
  for (const std::string& axis : made.partial) {
    if (!HasAxis(split, axis)) settled.partial.push_back(axis);
  }
  return settled;
}

void Partitioner::Place(ValueId value, ValueId made, const Sharding& sharding, const Tags& tags) {
  builder_.Annotate(made, sharding, graph_.value(value).tier);
  placed_[value] = {made, sharding};
  if (!wants_[value]) return;
  const Sharding settled = Settled(*wants_[value], sharding);
  if (settled == sharding) return;
  // The value that stays has the name.
  builder_.Rename(made, absl::StrCat(graph_.value(value).name, ".part"));
  const ValueId converted = ConvertValue(value, made, sharding, settled, tags);
  if (converted != kNoValue) builder_.Rename(converted, graph_.value(value).name);
  placed_[value] = {converted, settled};
}

// Right behind the value, so that what crosses to the host is made in the segment of its maker.
void Partitioner::PlaceOutputs(ValueId value, const Tags& tags) {
  auto found = outputs_of_.find(value);
  if (found == outputs_of_.end()) return;
  for (const std::string& name : found->second) {
    auto gradient = options_.gradients.find(name);
    const Placed& placed = placed_[value];
    auto given = options_.outputs.find(name);
    Sharding wanted = given != options_.outputs.end()
                          ? given->second
                          : Replicated(graph_.value(value).type.rank());
    if (gradient != options_.gradients.end()) {
      wanted = Settled(Want{gradient->second, true, true}, placed.sharding);
    }
    absl::StatusOr<ValueId> local = Read(value, wanted, tags);
    if (!local.ok()) {
      builder_.Fail(local.status());
      return;
    }
    if (*local != placed.local && graph_.value(value).name == name) {
      builder_.Rename(placed.local, absl::StrCat(name, ".part"));
      builder_.Rename(*local, name);
    }
    outputs_[name] = *local;
    result_.outputs[name] = wanted;
  }
}

absl::Status Partitioner::AddNode(NodeId n) {
  const Node& node = graph_.node(n);
  const Tags tags = TagsOf(node);
  if (IsGenerator(node)) {
    placed_[node.results[0]].sharding = Replicated(graph_.value(node.results[0]).type.rank());
    PlaceOutputs(node.results[0], tags);
    return builder_.status();
  }
  const Types operand_types = graph_.OperandTypes(node);
  const FactorRule rule = node.op->Factors({operand_types, node.attributes});
  std::optional<NodeSharding> panel = PanelOf(node, rule);
  NodeSharding sharding = panel ? *std::move(panel) : ShardNode(RequestOf(node, rule));
  ValueIds operands;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    ASSIGN_OR_RETURN(ValueId local, Read(node.operands[i], sharding.operands[i], tags));
    operands.push_back(local);
  }
  std::vector<std::string> names;
  for (ValueId v : node.results) names.push_back(graph_.value(v).name);
  ValueIds results;
  {
    BlockScope scope(builder_, node.block);
    builder_.SetClone(node.clone);
    absl::StatusOr<ValueIds> emitted =
        sharding.expands ? Expand(node, rule, sharding, std::move(operands), names)
                         : Emit(node, rule, sharding, std::move(operands), names);
    builder_.SetClone(0);
    if (!emitted.ok()) {
      return Annotate(emitted.status(), absl::StrCat("partition: ", ToText(graph_, node)));
    }
    results = *std::move(emitted);
  }
  for (size_t i = 0; i < node.results.size(); ++i) {
    Place(node.results[i], results[i], sharding.results[i], tags);
    PlaceOutputs(node.results[i], tags);
  }
  return builder_.status();
}

void Partitioner::FinishState(const State& state) {
  if (state.out == state.in) return;
  const Placed& in = placed_[state.in];
  const NodeId producer = graph_.value(state.out).producer;
  const Tags tags = producer == kNoNode ? Tags{} : TagsOf(graph_.node(producer));
  absl::StatusOr<ValueId> out = Read(state.out, in.sharding, tags);
  if (out.ok()) {
    builder_.UpdateState(in.local, *out);
  } else {
    builder_.Fail(out.status());
  }
}

void Partitioner::FinishOutputs() {
  for (const Output& output : graph_.outputs()) {
    // Feeds and states.
    if (!outputs_.count(output.name)) PlaceOutputs(output.value, {});
    builder_.Output(output.name, outputs_[output.name]);
  }
}

absl::StatusOr<Partitioned> Partitioner::Run() {
  AddFeeds();
  AddStates();
  RETURN_IF_ERROR(builder_.status());
  for (size_t n = 0; n < graph_.nodes().size(); ++n) {
    RETURN_IF_ERROR(AddNode(static_cast<NodeId>(n)));
  }
  for (const State& state : graph_.states()) FinishState(state);
  FinishOutputs();
  ASSIGN_OR_RETURN(result_.graph, std::move(builder_).Build());
  return std::move(result_);
}

}  // namespace

absl::StatusOr<Partitioned> Partition(const Graph& annotated, const PartitionOptions& options) {
  return Partitioner(annotated, options).Run();
}

}  // namespace colossus
