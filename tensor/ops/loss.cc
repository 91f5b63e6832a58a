#include "tensor/ops/loss.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/ops/checks.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/gradient_builder.h"
#include "tensor/ops/loss_expand.h"

namespace colossus {
namespace {

// With "loss" for cross_entropy, cross_entropy_grad and linear_cross_entropy:
// loss_c1: logits (or x) is a float type with at least one dim; labels has its leading dims and is
//          i32 or i64.
// loss_c2: attributes are known, of their types, and 1 <= classes <= v; of a part (with origin, >=
// 0)
//          classes are those of the whole: 1 <= classes.
// loss_c3: (cross_entropy_grad) dloss is 0-d, lse has the labels' dims, both in the dtype of the
//          statistics.
// loss_c4: (linear_cross_entropy) w is [v c] in x's dtype with x's last extent.
// loss_c5: (linear_cross_entropy) "with" agrees with the operands; seed is 0-d in the dtype of the
//          statistics, bias is [v] in x's dtype.
// loss_c6: (linear_cross_entropy) chunk >= 1.
// loss_c7: (cross_entropy_grad) dtype names a float type.
absl::Status CheckLabels(const OpCall& call, int x, int labels) {
  const Type& values = call.operands[x];
  const Type& ids = call.operands[labels];
  if (values.rank() < 1 || !IsFloat(values.dtype) ||
      ids.dims != Dims(values.dims.begin(), values.dims.end() - 1) ||
      (ids.dtype != DType::kI32 && ids.dtype != DType::kI64)) {
    return Refuse("loss_c1", absl::StrCat("values ", ToString(values), " do not go with labels ",
                                          ToString(ids)));
  }
  return absl::OkStatus();
}

absl::Status CheckClasses(const OpCall& call, int64_t v) {
  const int64_t origin = call.attributes.IntOr("origin", 0);
  int64_t classes = call.attributes.IntOr("classes", origin + v);
  if (origin < 0) return Refuse("loss_c2", absl::StrCat("origin is ", origin));
  if (classes >= 1 && (classes <= v || call.attributes.Has("origin"))) return absl::OkStatus();
  return Refuse("loss_c2", absl::StrCat("classes ", classes, " is not in 1 to ", v));
}

double Classes(const OpCall& call, int64_t v) {
  return static_cast<double>(call.attributes.IntOr("classes", v));
}

Attributes LossAttributes(const LossOptions& options) {
  Attributes attributes;
  if (options.ignore != kIgnoreLabel) attributes.Set("ignore", options.ignore);
  if (options.classes != 0) attributes.Set("classes", options.classes);
  return attributes;
}

class CrossEntropyDefinition final : public Op {
 public:
  absl::string_view name() const override { return "cross_entropy"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(
        call, "loss_c2", {{"ignore", AttributeKind::kInt}, {"classes", AttributeKind::kInt}}));
    if (call.operands.size() != 2) return Refuse("loss_c1", "needs logits and labels");
    RETURN_IF_ERROR(CheckLabels(call, 0, 1));
    RETURN_IF_ERROR(CheckClasses(call, call.operands[0].dims.back()));
    DType dtype = StatisticsDType(call.operands[0].dtype);
    return Types{{dtype, {}}, {dtype, call.operands[1].dims}};
  }

  absl::Status Gradient(GradientBuilder& g) const override {
    if (g.has_dy(1)) return absl::InvalidArgumentError("cross_entropy: lse has no gradient");
    ValueId dx = g.graph().Apply1(CrossEntropyGradOp(), {g.dy(0), g.x(0), g.x(1), g.y(1)},
                                  g.attributes());
    g.Add(0, Convert(g.graph(), dx, g.gradient_dtype(0)));
    return absl::OkStatus();
  }

  FactorRule Factors(const OpCall& call) const override {
    std::string lead = LeadingLabels(call.operands[1].rank());
    absl::StatusOr<Types> results = Infer(call);
    CHECK_OK(results.status());
    return BoundRule(absl::StrCat(lead, " v, ", lead, " -> , ", lead), call.operands, *results)
        .Set("v", FactorKind::kExpand);
  }

  absl::Status Expand(ShardedCall& call, GraphBuilder& graph) const override {
    return ExpandCrossEntropy(call, graph);
  }

  // Per position: maximum, exp of differences and sum, 4 for lse and loss.
  Cost CostOf(const OpCall& call) const override {
    double positions = static_cast<double>(call.operands[1].elements());
    double classes = Classes(call, call.operands[0].dims.back());
    return {positions * (4 * classes + 4), BytesOf(call)};
  }
};

class CrossEntropyGradDefinition final : public Op {
 public:
  absl::string_view name() const override { return "cross_entropy_grad"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "loss_c2",
                                        {{"ignore", AttributeKind::kInt},
                                         {"classes", AttributeKind::kInt},
                                         {"origin", AttributeKind::kInt},
                                         {"dtype", AttributeKind::kString}}));
    if (call.operands.size() != 4) return Refuse("loss_c1", "needs dloss, logits, labels, lse");
    RETURN_IF_ERROR(CheckLabels(call, 1, 2));
    RETURN_IF_ERROR(CheckClasses(call, call.operands[1].dims.back()));
    DType dtype = StatisticsDType(call.operands[1].dtype);
    RETURN_IF_ERROR(CheckOperand(call, "loss_c3", 0, "dloss", {dtype, {}}));
    RETURN_IF_ERROR(CheckOperand(call, "loss_c3", 3, "lse", {dtype, call.operands[2].dims}));
    ASSIGN_OR_RETURN(DType result,
                     FloatAttribute(call, "loss_c7", "dtype", call.operands[1].dtype));
    return Types{{result, call.operands[1].dims}};
  }

  FactorRule Factors(const OpCall& call) const override {
    std::string lead = LeadingLabels(call.operands[2].rank());
    absl::StatusOr<Types> results = Infer(call);
    CHECK_OK(results.status());
    return BoundRule(absl::StrCat(", ", lead, " v, ", lead, ", ", lead, " -> ", lead, " v"),
                     call.operands, *results)
        .Set("v", FactorKind::kIndexed);
  }

  // lse is that of the whole row, so a part needs only to know which columns it has.
  absl::StatusOr<Attributes> Localize(const OpCall& call,
                                      absl::Span<const FactorPart> parts) const override {
    Attributes local = call.attributes;
    const FactorPart& v = parts[Factors(call).Find("v")];
    const int64_t whole = call.operands[1].dims.back(), origin = local.IntOr("origin", 0);
    if (v.extent == whole) return local;
    local.Set("classes", local.IntOr("classes", origin + whole));
    local.Set("origin", origin + v.origin);
    return local;
  }

  // Per entry: exp of a difference and a product; one subtraction at the label.
  Cost CostOf(const OpCall& call) const override {
    double positions = static_cast<double>(call.operands[2].elements());
    double classes = static_cast<double>(ClassesOfPart(call, call.operands[1].dims.back()));
    return {positions * (3 * classes + 1), BytesOf(call)};
  }

  Aliases MayAlias(const OpCall& call) const override {
    absl::StatusOr<Types> results = Infer(call);
    CHECK_OK(results.status());
    return (*results)[0] == call.operands[1] ? Aliases{{0, 1}} : Aliases{};
  }
};

class LinearCrossEntropyDefinition final : public Op {
 public:
  absl::string_view name() const override { return "linear_cross_entropy"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "loss_c2",
                                        {{"ignore", AttributeKind::kInt},
                                         {"classes", AttributeKind::kInt},
                                         {"chunk", AttributeKind::kInt},
                                         {"with", AttributeKind::kStrings}}));
    RETURN_IF_ERROR(CheckRoles(call, "loss_c5", 3, {"seed", "bias"}));
    RETURN_IF_ERROR(CheckLabels(call, 0, 2));
    const Type& x = call.operands[0];
    const Type& w = call.operands[1];
    if (w.rank() != 2 || w.dtype != x.dtype || w.dims[1] != x.dims.back()) {
      return Refuse("loss_c4", absl::StrCat("w is ", ToString(w), ", x ", ToString(x)));
    }
    RETURN_IF_ERROR(CheckClasses(call, w.dims[0]));
    if (call.attributes.IntOr("chunk", kLossChunk) < 1) {
      return Refuse("loss_c6", "chunk is less than 1");
    }
    DType dtype = StatisticsDType(x.dtype);
    int seed = OptionalOperand(call.attributes, 3, "seed");
    int bias = OptionalOperand(call.attributes, 3, "bias");
    if (bias >= 0) {
      RETURN_IF_ERROR(CheckOperand(call, "loss_c5", bias, "bias", {x.dtype, {w.dims[0]}}));
    }
    Types results{{dtype, {}}};
    if (seed < 0) return results;
    RETURN_IF_ERROR(CheckOperand(call, "loss_c5", seed, "seed", {dtype, {}}));
    results.push_back(x);
    results.push_back({dtype, w.dims});
    if (bias >= 0) results.push_back({dtype, {w.dims[0]}});
    return results;
  }

  // The gradients are results already, made for the cotangent `seed`.
  absl::Status Gradient(GradientBuilder& g) const override {
    int seed = OptionalOperand(g.attributes(), 3, "seed");
    int bias = OptionalOperand(g.attributes(), 3, "bias");
    if (seed < 0 || !g.has_dy(0) || g.dy(0) != g.x(seed)) {
      return absl::InvalidArgumentError(
          "linear_cross_entropy: its gradients are made for the operand 'seed'; the cotangent of "
          "loss_sum must be that very value");
    }
    for (int i = 1; i < (bias >= 0 ? 4 : 3); ++i) {
      if (g.has_dy(i)) {
        return absl::InvalidArgumentError("linear_cross_entropy: no second derivatives");
      }
    }
    g.Add(0, Convert(g.graph(), g.y(1), g.gradient_dtype(0)));
    g.Add(1, Convert(g.graph(), g.y(2), g.gradient_dtype(1)));
    if (bias >= 0) g.Add(bias, Convert(g.graph(), g.y(3), g.gradient_dtype(bias)));
    return absl::OkStatus();
  }

  FactorRule Factors(const OpCall& call) const override {
    std::string lead = LeadingLabels(call.operands[2].rank());
    bool seed = OptionalOperand(call.attributes, 3, "seed") >= 0;
    bool bias = OptionalOperand(call.attributes, 3, "bias") >= 0;
    absl::StatusOr<Types> results = Infer(call);
    CHECK_OK(results.status());
    std::string text = absl::StrCat(lead, " c, v c, ", lead, seed ? ", " : "", bias ? ", v" : "",
                                    " -> ");
    if (seed) absl::StrAppend(&text, ", ", lead, " c, v c", bias ? ", v" : "");
    FactorRule rule = BoundRule(text, call.operands, *results);
    for (int d = 0; d < call.operands[2].rank(); ++d) {
      rule.Set(absl::StrCat("d", d), seed ? FactorKind::kParallel : FactorKind::kSum);
    }
    return rule.Set("c", FactorKind::kExpand).Set("v", FactorKind::kExpand);
  }

  absl::Status Expand(ShardedCall& call, GraphBuilder& graph) const override {
    return ExpandLinearCrossEntropy(call, graph);
  }

  // As product, bias and cross_entropy; with a seed two more products, 3 an entry, dbias.
  Cost CostOf(const OpCall& call) const override {
    bool seed = OptionalOperand(call.attributes, 3, "seed") >= 0;
    double bias = OptionalOperand(call.attributes, 3, "bias") >= 0;
    double positions = static_cast<double>(call.operands[2].elements());
    double c = static_cast<double>(call.operands[0].dims.back());
    double classes = Classes(call, call.operands[1].dims[0]);
    double flops = classes * (2 * c + bias + 4) + 4;
    if (seed) flops += classes * (4 * c + 3 + bias) + 1;
    return {positions * flops, BytesOf(call)};
  }
};

}  // namespace

int64_t ClassesOfPart(const OpCall& call, int64_t v) {
  const int64_t origin = call.attributes.IntOr("origin", 0);
  return std::clamp<int64_t>(call.attributes.IntOr("classes", origin + v) - origin, 0, v);
}

const Op& CrossEntropyOp() {
  static const CrossEntropyDefinition* const op = new CrossEntropyDefinition();
  return *op;
}

const Op& CrossEntropyGradOp() {
  static const CrossEntropyGradDefinition* const op = new CrossEntropyGradDefinition();
  return *op;
}

const Op& LinearCrossEntropyOp() {
  static const LinearCrossEntropyDefinition* const op = new LinearCrossEntropyDefinition();
  return *op;
}

ValueId CrossEntropy(GraphBuilder& graph, ValueId logits, ValueId labels,
                     const LossOptions& options, absl::string_view name) {
  CHECK(options.seed == kNoValue && options.bias == kNoValue) << "options of another op";
  return graph.Apply(CrossEntropyOp(), {logits, labels}, LossAttributes(options), name)[0];
}

ValueId LinearCrossEntropy(GraphBuilder& graph, ValueId x, ValueId w, ValueId labels,
                           const LossOptions& options, absl::string_view name) {
  ValueIds operands{x, w, labels};
  Strings with;
  AddOptionalOperand("seed", options.seed, operands, with);
  AddOptionalOperand("bias", options.bias, operands, with);
  Attributes attributes = LossAttributes(options);
  if (options.chunk != kLossChunk) attributes.Set("chunk", options.chunk);
  if (!with.empty()) attributes.Set("with", std::move(with));
  return graph.Apply(LinearCrossEntropyOp(), std::move(operands), std::move(attributes), name)[0];
}

}  // namespace colossus
