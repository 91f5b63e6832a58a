#include "tensor/ops/optimizer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/ops/checks.h"

namespace colossus {
namespace {

// How the operands and results of an update lie.
struct Layout {
  int moments = 0, scalars = 0;

  int operands() const { return 2 + moments; }  // of a parameter
  int results(const OpCall& call) const {
    return 1 + moments + (call.attributes.Has("compute") ? 1 : 0);
  }
  // REQUIRES: weight_decay is there.
  static int parameters(const OpCall& call) {
    return static_cast<int>(call.attributes.FloatList("weight_decay").size());
  }
};
constexpr Layout kAdamw{.moments = 2, .scalars = 4};
constexpr Layout kSgd{.moments = 1, .scalars = 2};

absl::Status CheckParameter(const OpCall& call, const Layout& layout, int p) {
  const int first = p * layout.operands();
  const Type& master = call.operands[first];
  const Type& grad = call.operands[first + 1];
  const DType dtype = call.operands[0].dtype;
  if ((dtype != DType::kF32 && dtype != DType::kF64) || master.dtype != dtype) {
    return Refuse("update_c1", absl::StrCat("master ", p, " is ", ToString(master)));
  }
  if (!IsFloat(grad.dtype) || grad.dims != master.dims ||
      (grad.dtype == DType::kF64) != (dtype == DType::kF64)) {
    return Refuse("update_c2",
                  absl::StrCat("grad ", p, " is ", ToString(grad), ", master ", ToString(master)));
  }
  const Type moment{HasNarrowMoments(call.attributes) ? DType::kBF16 : dtype, master.dims};
  for (int i = first + 2; i < first + layout.operands(); ++i) {
    RETURN_IF_ERROR(CheckOperand(call, "update_c3", i, "a moment", moment));
  }
  return absl::OkStatus();
}

// bf16 moments: which they are, and the random key.
absl::Status CheckNarrowMoments(const OpCall& call, const Layout& layout) {
  if (call.operands[0].dtype != DType::kF32) {
    return Refuse("update_c7", "bf16 moments go with f32 masters");
  }
  std::vector<int64_t> elements;
  for (int p = 0; p < Layout::parameters(call); ++p) {
    elements.push_back(call.operands[p * layout.operands()].elements());
  }
  RETURN_IF_ERROR(CheckSegments(call.attributes, "update_c7", elements));
  return CheckOperand(call, "update_c7", static_cast<int>(call.operands.size()) - 1, "key",
                      {DType::kI64, {2}});
}

// With "update" for adamw and sgd:
// update_c1: as many operands as listed for 1 to 256 parameters, one per entry of weight_decay;
//            masters are all f32 or all f64.
// update_c2: grad is a float type of master's dims, and f64 exactly if master is.
// update_c3: moments are as master, or bf16 (c7); scalars 0-d in the masters' dtype.
// update_c4: attributes are known, of their types, and those needed are there.
// update_c5: 0 <= beta, momentum < 1; epsilon and every weight_decay >= 0.
// update_c6: compute names a float type.
// update_c7: with moments, which is "bf16", of f32 masters, the last operand is the key, i64[2],
// and
//            sites and segments describe elements of the parameters, ascending; else they are not
//            there.
absl::StatusOr<Types> InferUpdate(const OpCall& call, const Layout& layout) {
  const int parameters = Layout::parameters(call);
  const bool narrow = HasNarrowMoments(call.attributes);
  if (narrow && call.attributes.String("moments") != "bf16") {
    return Refuse("update_c7", "moments is not bf16");
  }
  const int scalars_end = parameters * layout.operands() + layout.scalars;
  const int needed = scalars_end + (narrow ? 1 : 0);
  if (parameters < 1 || parameters > kMaxUpdated ||
      static_cast<int>(call.operands.size()) != needed) {
    return Refuse("update_c1",
                  absl::StrCat("1 to ", kMaxUpdated, " parameters; ", parameters, " need ", needed,
                               " operands, not ", call.operands.size()));
  }
  for (int p = 0; p < parameters; ++p) RETURN_IF_ERROR(CheckParameter(call, layout, p));
  const DType wide = call.operands[0].dtype;
  for (int i = scalars_end - layout.scalars; i < scalars_end; ++i) {
    RETURN_IF_ERROR(CheckOperand(call, "update_c3", i, "a scalar", {wide, {}}));
  }
  ASSIGN_OR_RETURN(DType copy, FloatAttribute(call, "update_c6", "compute", DType::kF32));
  if (narrow) {
    RETURN_IF_ERROR(CheckNarrowMoments(call, layout));
  } else if (call.attributes.Has("sites") || call.attributes.Has("segments")) {
    return Refuse("update_c7", "sites and segments go with moments");
  }
  Types results;
  for (int p = 0; p < parameters; ++p) {
    const Type* operands = &call.operands[p * layout.operands()];
    const Type& master = operands[0];
    results.push_back(master);
    results.insert(results.end(), layout.moments, operands[2]);
    if (call.attributes.Has("compute")) results.push_back({copy, master.dims});
  }
  return results;
}

absl::Status CheckBelowOne(const OpCall& call, absl::string_view name) {
  double value = call.attributes.Float(name);
  if (value >= 0 && value < 1) return absl::OkStatus();
  return Refuse("update_c5", absl::StrCat(name, " is not in [0, 1)"));
}

absl::Status CheckDecay(const OpCall& call) {
  for (double decay : call.attributes.FloatList("weight_decay")) {
    if (!(decay >= 0)) return Refuse("update_c5", "weight_decay is negative");
  }
  return absl::OkStatus();
}

int64_t Elements(const OpCall& call, const Layout& layout) {
  int64_t elements = 0;
  for (int p = 0; p < Layout::parameters(call); ++p) {
    elements += call.operands[p * layout.operands()].elements();
  }
  return elements;
}

// Pointwise over the masters' dims, scalars everywhere, if all parameters are of the same dims.
// Parameters of different dims have no factor in common, and a part that holds a part of one only
// is not a part of the node: each rank builds its node from the parameters it holds.
FactorRule UpdateFactors(const Op& op, const OpCall& call, const Layout& layout) {
  absl::StatusOr<Types> results = op.Infer(call);
  CHECK_OK(results.status());
  const int scalars_from = Layout::parameters(call) * layout.operands();
  const Dims& dims = call.operands[0].dims;
  if (HasNarrowMoments(call.attributes)) return WholeRule(call.operands, *results);
  for (int i = 0; i < scalars_from; ++i) {
    if (call.operands[i].dims != dims) return WholeRule(call.operands, *results);
  }
  std::string labels = LeadingLabels(call.operands[0].rank()), text;
  for (int i = 0; i < static_cast<int>(call.operands.size()); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", i < scalars_from ? labels : "");
  }
  for (size_t i = 0; i < results->size(); ++i) {
    absl::StrAppend(&text, i == 0 ? " -> " : ", ", labels);
  }
  return BoundRule(text, call.operands, *results);
}

// Masters and moments in place; a copy may overwrite a gradient of its size.
Aliases UpdateAliases(const OpCall& call, const Layout& layout) {
  absl::StatusOr<DType> compute = ParseDType(call.attributes.StringOr("compute", "f32"));
  CHECK_OK(compute.status());
  Aliases aliases;
  for (int p = 0; p < Layout::parameters(call); ++p) {
    const int x = p * layout.operands(), y = p * layout.results(call);
    aliases.push_back({y, x});
    for (int i = 1; i <= layout.moments; ++i) aliases.push_back({y + i, x + i + 1});
    if (!call.attributes.Has("compute")) continue;
    if (SizeOf(*compute) == SizeOf(call.operands[x + 1].dtype)) {
      aliases.push_back({y + layout.moments + 1, x + 1});
    }
  }
  return aliases;
}

class AdamwDefinition final : public Op {
 public:
  absl::string_view name() const override { return "adamw"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "update_c4",
                                        {{"beta1", AttributeKind::kFloat, true},
                                         {"beta2", AttributeKind::kFloat, true},
                                         {"epsilon", AttributeKind::kFloat, true},
                                         {"weight_decay", AttributeKind::kFloats, true},
                                         {"compute", AttributeKind::kString},
                                         {"moments", AttributeKind::kString},
                                         {"sites", AttributeKind::kStrings},
                                         {"segments", AttributeKind::kInts}}));
    RETURN_IF_ERROR(CheckBelowOne(call, "beta1"));
    RETURN_IF_ERROR(CheckBelowOne(call, "beta2"));
    if (!(call.attributes.Float("epsilon") >= 0)) return Refuse("update_c5", "epsilon is negative");
    RETURN_IF_ERROR(CheckDecay(call));
    return InferUpdate(call, kAdamw);
  }

  FactorRule Factors(const OpCall& call) const override {
    return UpdateFactors(*this, call, kAdamw);
  }

  // Per element: gradient 1, moments 3 + 4, decay 1, step 6; two per parameter, two once.
  Cost CostOf(const OpCall& call) const override {
    return {15 * static_cast<double>(Elements(call, kAdamw)) + 2.0 * Layout::parameters(call) + 2,
            BytesOf(call)};
  }

  Aliases MayAlias(const OpCall& call) const override { return UpdateAliases(call, kAdamw); }
};

class SgdDefinition final : public Op {
 public:
  absl::string_view name() const override { return "sgd"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "update_c4",
                                        {{"momentum", AttributeKind::kFloat, true},
                                         {"weight_decay", AttributeKind::kFloats, true},
                                         {"compute", AttributeKind::kString},
                                         {"moments", AttributeKind::kString},
                                         {"sites", AttributeKind::kStrings},
                                         {"segments", AttributeKind::kInts}}));
    RETURN_IF_ERROR(CheckBelowOne(call, "momentum"));
    RETURN_IF_ERROR(CheckDecay(call));
    return InferUpdate(call, kSgd);
  }

  FactorRule Factors(const OpCall& call) const override { return UpdateFactors(*this, call, kSgd); }

  Cost CostOf(const OpCall& call) const override {
    return {7 * static_cast<double>(Elements(call, kSgd)), BytesOf(call)};
  }

  Aliases MayAlias(const OpCall& call) const override { return UpdateAliases(call, kSgd); }
};

// The attributes of bf16 moments, and the operand that they need.
template <class Parameter>
void AddNarrowMoments(absl::Span<const Parameter> parameters, ValueId key, ValueIds& operands,
                      Attributes& attributes) {
  if (key == kNoValue) return;
  operands.push_back(key);
  std::vector<ElementSegment> segments;
  for (size_t p = 0; p < parameters.size(); ++p) {
    for (ElementSegment segment : parameters[p].elements) {
      segment.buffer = static_cast<int>(p);
      segments.push_back(std::move(segment));
    }
  }
  attributes.Set("moments", "bf16");
  SetSegments(attributes, segments);
}

// After an error the builder gives fewer results than there are.
ValueIds ResultsOf(ValueIds results, size_t count) {
  results.resize(std::max(results.size(), count), kNoValue);
  return results;
}

}  // namespace

const Op& AdamwOp() {
  static const AdamwDefinition* const op = new AdamwDefinition();
  return *op;
}

const Op& SgdOp() {
  static const SgdDefinition* const op = new SgdDefinition();
  return *op;
}

bool HasNarrowMoments(const Attributes& attributes) { return attributes.Has("moments"); }

std::vector<AdamwResults> Adamw(GraphBuilder& graph, absl::Span<const AdamwParameter> parameters,
                                const AdamwScalars& scalars, const AdamwOptions& options,
                                absl::string_view name) {
  ValueIds operands;
  Floats decay;
  for (const AdamwParameter& p : parameters) {
    operands.insert(operands.end(), {p.master, p.grad, p.m, p.v});
    decay.push_back(p.weight_decay);
  }
  operands.insert(operands.end(), {scalars.learning_rate, scalars.grad_scale, scalars.correction1,
                                   scalars.correction2});
  Attributes attributes{{"beta1", options.beta1},
                        {"beta2", options.beta2},
                        {"epsilon", options.epsilon},
                        {"weight_decay", std::move(decay)}};
  if (options.compute.has_value()) attributes.Set("compute", Name(*options.compute));
  AddNarrowMoments(parameters, scalars.key, operands, attributes);
  const size_t step = options.compute.has_value() ? 4 : 3;
  const ValueIds y =
      ResultsOf(graph.Apply(AdamwOp(), std::move(operands), std::move(attributes), name),
                step * parameters.size());
  std::vector<AdamwResults> results;
  for (size_t at = 0; at < step * parameters.size(); at += step) {
    results.push_back({y[at], y[at + 1], y[at + 2], step == 4 ? y[at + 3] : kNoValue});
  }
  return results;
}

std::vector<SgdResults> Sgd(GraphBuilder& graph, absl::Span<const SgdParameter> parameters,
                            ValueId learning_rate, ValueId grad_scale, const SgdOptions& options,
                            absl::string_view name, ValueId key) {
  ValueIds operands;
  Floats decay;
  for (const SgdParameter& p : parameters) {
    operands.insert(operands.end(), {p.master, p.grad, p.momentum});
    decay.push_back(p.weight_decay);
  }
  operands.insert(operands.end(), {learning_rate, grad_scale});
  Attributes attributes{{"momentum", options.momentum}, {"weight_decay", std::move(decay)}};
  if (options.compute.has_value()) attributes.Set("compute", Name(*options.compute));
  AddNarrowMoments(parameters, key, operands, attributes);
  const size_t step = options.compute.has_value() ? 3 : 2;
  const ValueIds y =
      ResultsOf(graph.Apply(SgdOp(), std::move(operands), std::move(attributes), name),
                step * parameters.size());
  std::vector<SgdResults> results;
  for (size_t at = 0; at < step * parameters.size(); at += step) {
    results.push_back({y[at], y[at + 1], step == 3 ? y[at + 2] : kNoValue});
  }
  return results;
}

}  // namespace colossus
