#include "tensor/ops/norm.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tensor/ops/checks.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/gradient_builder.h"

namespace colossus {
namespace {

// Constraints, with "norm" standing for layer_norm, layer_norm_grad, rms_norm and rms_norm_grad:
// norm_c1: x is a float type with at least one dim, and the last one is not empty.
// norm_c2: attributes are known, of their types, and those needed are there.
// norm_c3: "with" agrees with the operands; roles: weight, bias (layer_norm), weight (others).
// norm_c4: weight and bias are float types of dims [c].
// norm_c5: eps >= 0; offset is 0 or 1.
// norm_c6: dtype names a float type.
// norm_c7: (gradients) dy is a float type of x's dims; mean and rstd have x's leading dims and the
//          dtype of the statistics.
absl::Status CheckX(const OpCall& call, int x) {
  if (static_cast<int>(call.operands.size()) <= x) return Refuse("norm_c3", "operands are missing");
  const Type& type = call.operands[x];
  if (IsFloat(type.dtype) && type.rank() >= 1 && type.dims.back() > 0) return absl::OkStatus();
  return Refuse("norm_c1", absl::StrCat("x is ", ToString(type)));
}

absl::Status CheckParameters(const OpCall& call, int fixed, int64_t c) {
  for (size_t i = fixed; i < call.operands.size(); ++i) {
    const Type& type = call.operands[i];
    if (!IsFloat(type.dtype) || type.dims != Dims{c}) {
      return Refuse("norm_c4", absl::StrCat("weight or bias is ", ToString(type), ", needs [", c,
                                            "]"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNumbers(const OpCall& call) {
  if (!(call.attributes.FloatOr("eps", 0) >= 0)) return Refuse("norm_c5", "eps is negative");
  int64_t offset = call.attributes.IntOr("offset", 0);
  if (offset != 0 && offset != 1) return Refuse("norm_c5", "offset is neither 0 nor 1");
  return absl::OkStatus();
}

Type StatisticsType(const Type& x) {
  return {StatisticsDType(x.dtype), Dims(x.dims.begin(), x.dims.end() - 1)};
}

absl::StatusOr<Types> InferForward(const OpCall& call, int statistics) {
  RETURN_IF_ERROR(CheckX(call, 0));
  RETURN_IF_ERROR(CheckNumbers(call));
  const Type& x = call.operands[0];
  RETURN_IF_ERROR(CheckParameters(call, 1, x.dims.back()));
  ASSIGN_OR_RETURN(DType dtype, FloatAttribute(call, "norm_c6", "dtype", x.dtype));
  Types results{{dtype, x.dims}};
  results.insert(results.end(), statistics, StatisticsType(x));
  return results;
}

// Operands dy, x, `statistics` of them, weight; results dx, one [c] vector per parameter.
absl::StatusOr<Types> InferGradient(const OpCall& call, int statistics, int parameters) {
  RETURN_IF_ERROR(CheckX(call, 1));
  RETURN_IF_ERROR(CheckNumbers(call));
  const Type& x = call.operands[1];
  if (!IsFloat(call.operands[0].dtype) || call.operands[0].dims != x.dims) {
    return Refuse("norm_c7", absl::StrCat("dy is ", ToString(call.operands[0]), ", x ",
                                          ToString(x)));
  }
  for (int i = 2; i < 2 + statistics; ++i) {
    RETURN_IF_ERROR(CheckOperand(call, "norm_c7", i, "a statistic", StatisticsType(x)));
  }
  RETURN_IF_ERROR(CheckParameters(call, 2 + statistics, x.dims.back()));
  Types results{x};
  results.insert(results.end(), parameters, {StatisticsDType(x.dtype), {x.dims.back()}});
  return results;
}

// How many of a list of values are full (as x) and how many after them are statistics; the rest are
// vectors over the normalised dim.
struct Layout {
  int full, statistics;
};

// The normalised dim is whole; leading dims are parallel (and leave weight gradients partial).
FactorRule NormFactors(const Op& op, const OpCall& call, Layout operands, Layout results) {
  absl::StatusOr<Types> types = op.Infer(call);
  std::string lead = LeadingLabels(call.operands[0].rank() - 1);
  auto side = [&](int count, Layout layout) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      absl::StrAppend(&text, i == 0 ? "" : ", ", i < layout.full + layout.statistics ? lead : "",
                      i < layout.full || i >= layout.full + layout.statistics ? " c" : "");
    }
    return text;
  };
  std::string text = absl::StrCat(side(static_cast<int>(call.operands.size()), operands), " -> ",
                                  side(static_cast<int>(types->size()), results));
  return BoundRule(text, call.operands, *types).Set("c", FactorKind::kWhole);
}

struct Extents {
  double rows, c;
};
Extents ExtentsOf(const Type& x) {
  double c = static_cast<double>(x.dims.back());
  return {static_cast<double>(x.elements()) / c, c};
}

bool HasRole(const OpCall& call, absl::string_view role) {
  return OptionalOperand(call.attributes, 0, role) >= 0;
}

class LayerNormDefinition final : public Op {
 public:
  absl::string_view name() const override { return "layer_norm"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "norm_c2",
                                        {{"eps", AttributeKind::kFloat, true},
                                         {"dtype", AttributeKind::kString},
                                         {"with", AttributeKind::kStrings}}));
    RETURN_IF_ERROR(CheckRoles(call, "norm_c3", 1, {"weight", "bias"}));
    return InferForward(call, 2);
  }

  absl::Status Gradient(GradientBuilder& g) const override;

  FactorRule Factors(const OpCall& call) const override {
    return NormFactors(*this, call, {1, 0}, {1, 2});
  }

  // Per row: mean c + 1, variance 3c + 1, rstd 3, result 2c and c for each parameter.
  Cost CostOf(const OpCall& call) const override {
    auto [rows, c] = ExtentsOf(call.operands[0]);
    double parameters = static_cast<double>(call.operands.size()) - 1;
    return {rows * (c * (6 + parameters) + 5), BytesOf(call)};
  }
};

class LayerNormGradDefinition final : public Op {
 public:
  absl::string_view name() const override { return "layer_norm_grad"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "norm_c2",
                                        {{"bias", AttributeKind::kBool, true},
                                         {"with", AttributeKind::kStrings}}));
    RETURN_IF_ERROR(CheckRoles(call, "norm_c3", 4, {"weight"}));
    return InferGradient(call, 2, HasRole(call, "weight") + call.attributes.Bool("bias"));
  }

  FactorRule Factors(const OpCall& call) const override {
    return NormFactors(*this, call, {2, 2}, {1, 0});
  }

  // Per element: normalise 2, weight 1, two sums 3, dx 4, dweight 2, dbias 1. Two means a row.
  Cost CostOf(const OpCall& call) const override {
    auto [rows, c] = ExtentsOf(call.operands[1]);
    double weight = HasRole(call, "weight"), bias = call.attributes.Bool("bias");
    return {rows * (c * (9 + 3 * weight + bias) + 2), BytesOf(call)};
  }
};

class RmsNormDefinition final : public Op {
 public:
  absl::string_view name() const override { return "rms_norm"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "norm_c2",
                                        {{"eps", AttributeKind::kFloat, true},
                                         {"offset", AttributeKind::kInt},
                                         {"dtype", AttributeKind::kString},
                                         {"with", AttributeKind::kStrings}}));
    RETURN_IF_ERROR(CheckRoles(call, "norm_c3", 1, {"weight"}));
    return InferForward(call, 1);
  }

  absl::Status Gradient(GradientBuilder& g) const override;

  FactorRule Factors(const OpCall& call) const override {
    return NormFactors(*this, call, {1, 0}, {1, 1});
  }

  // Per row: mean square 2c + 1, rstd 3, result c, weight c, offset c.
  Cost CostOf(const OpCall& call) const override {
    auto [rows, c] = ExtentsOf(call.operands[0]);
    double weight = HasRole(call, "weight"), offset = call.attributes.IntOr("offset", 0);
    return {rows * (c * (3 + weight * (1 + offset)) + 4), BytesOf(call)};
  }
};

class RmsNormGradDefinition final : public Op {
 public:
  absl::string_view name() const override { return "rms_norm_grad"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "norm_c2",
                                        {{"offset", AttributeKind::kInt},
                                         {"with", AttributeKind::kStrings}}));
    RETURN_IF_ERROR(CheckRoles(call, "norm_c3", 3, {"weight"}));
    return InferGradient(call, 1, HasRole(call, "weight"));
  }

  FactorRule Factors(const OpCall& call) const override {
    return NormFactors(*this, call, {2, 1}, {1, 0});
  }

  // Per element: normalise 1, times weight 1 (+ offset 1), sum 2, dx 3, dweight 2. One mean a row.
  Cost CostOf(const OpCall& call) const override {
    auto [rows, c] = ExtentsOf(call.operands[1]);
    double weight = HasRole(call, "weight"), offset = call.attributes.IntOr("offset", 0);
    return {rows * (c * (6 + weight * (3 + offset)) + 1), BytesOf(call)};
  }
};

absl::Status OnlyFirstCotangent(const GradientBuilder& g, int results) {
  for (int i = 1; i < results; ++i) {
    if (g.has_dy(i)) return absl::InvalidArgumentError("statistics of a norm have no gradient");
  }
  return absl::OkStatus();
}

absl::Status LayerNormDefinition::Gradient(GradientBuilder& g) const {
  RETURN_IF_ERROR(OnlyFirstCotangent(g, 3));
  int weight = OptionalOperand(g.attributes(), 1, "weight");
  int bias = OptionalOperand(g.attributes(), 1, "bias");
  ValueIds operands{g.dy(0), g.x(0), g.y(1), g.y(2)};
  bool wants_bias = bias >= 0 && g.needs(bias);
  Attributes attributes{{"bias", wants_bias}};
  if (weight >= 0) {
    operands.push_back(g.x(weight));
    attributes.Set("with", Strings{"weight"});
  }
  ValueIds results = g.graph().Apply(LayerNormGradOp(), operands, attributes);
  g.Add(0, Convert(g.graph(), results[0], g.gradient_dtype(0)));
  if (weight >= 0) {
    g.Add(weight, Convert(g.graph(), results[1], g.gradient_dtype(weight)));
  }
  if (wants_bias) {
    g.Add(bias, Convert(g.graph(), results[weight >= 0 ? 2 : 1], g.gradient_dtype(bias)));
  }
  return absl::OkStatus();
}

absl::Status RmsNormDefinition::Gradient(GradientBuilder& g) const {
  RETURN_IF_ERROR(OnlyFirstCotangent(g, 2));
  int weight = OptionalOperand(g.attributes(), 1, "weight");
  ValueIds operands{g.dy(0), g.x(0), g.y(1)};
  Attributes attributes{{"offset", g.attributes().IntOr("offset", 0)}};
  if (weight >= 0) {
    operands.push_back(g.x(weight));
    attributes.Set("with", Strings{"weight"});
  }
  ValueIds results = g.graph().Apply(RmsNormGradOp(), operands, attributes);
  g.Add(0, Convert(g.graph(), results[0], g.gradient_dtype(0)));
  if (weight >= 0) {
    g.Add(weight, Convert(g.graph(), results[1], g.gradient_dtype(weight)));
  }
  return absl::OkStatus();
}

}  // namespace

const Op& LayerNormOp() {
  static const LayerNormDefinition* const op = new LayerNormDefinition();
  return *op;
}

const Op& LayerNormGradOp() {
  static const LayerNormGradDefinition* const op = new LayerNormGradDefinition();
  return *op;
}

const Op& RmsNormOp() {
  static const RmsNormDefinition* const op = new RmsNormDefinition();
  return *op;
}

const Op& RmsNormGradOp() {
  static const RmsNormGradDefinition* const op = new RmsNormGradDefinition();
  return *op;
}

ValueId LayerNorm(GraphBuilder& graph, ValueId x, ValueId weight, ValueId bias, double eps,
                  std::optional<DType> result, absl::string_view name) {
  ValueIds operands{x};
  Strings with;
  AddOptionalOperand("weight", weight, operands, with);
  AddOptionalOperand("bias", bias, operands, with);
  Attributes attributes{{"eps", eps}};
  if (!with.empty()) attributes.Set("with", with);
  if (result.has_value() && *result != graph.type(x).dtype) attributes.Set("dtype", Name(*result));
  return graph.Apply(LayerNormOp(), std::move(operands), std::move(attributes), name)[0];
}

ValueId RmsNorm(GraphBuilder& graph, ValueId x, ValueId weight, double eps, int offset,
                std::optional<DType> result, absl::string_view name) {
  ValueIds operands{x};
  Strings with;
  AddOptionalOperand("weight", weight, operands, with);
  Attributes attributes{{"eps", eps}};
  if (!with.empty()) attributes.Set("with", with);
  if (offset != 0) attributes.Set("offset", offset);
  if (result.has_value() && *result != graph.type(x).dtype) attributes.Set("dtype", Name(*result));
  return graph.Apply(RmsNormOp(), std::move(operands), std::move(attributes), name)[0];
}

}  // namespace colossus
