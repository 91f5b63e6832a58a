#include "tensor/ops/experts.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/ops/checks.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/gradient_builder.h"

namespace colossus {
namespace {

// With "experts" for dispatch, dispatch_grad, combine, combine_grad, grouped_matmul and
// grouped_matmul_grad_w:
// experts_c1: as many operands as listed, of the dims listed; extents agree.
// experts_c2: values are float types, those of one op alike but for weights; experts, order and
//             counts are i32.
// experts_c3: attributes are known, of their types, and those needed are there.
// experts_c4: experts, slots >= 1; tokens >= 0.
// experts_c5: dtype names a float type.
absl::Status CheckCount(const OpCall& call, int count) {
  if (static_cast<int>(call.operands.size()) == count) return absl::OkStatus();
  return Refuse("experts_c1", absl::StrCat("needs ", count, " operands"));
}

absl::Status CheckMatrix(const OpCall& call, int i, absl::string_view what) {
  const Type& type = call.operands[i];
  if (type.rank() != 2) return Refuse("experts_c1", absl::StrCat(what, " is ", ToString(type)));
  if (IsFloat(type.dtype)) return absl::OkStatus();
  return Refuse("experts_c2", absl::StrCat(what, " is ", ToString(type)));
}

absl::Status CheckIndices(const OpCall& call, int i, absl::string_view what, const Dims& dims) {
  const Type& type = call.operands[i];
  if (type.dims != dims) {
    return Refuse("experts_c1", absl::StrCat(what, " is ", ToString(type), ", needs ",
                                             DimsToString(dims)));
  }
  if (type.dtype == DType::kI32) return absl::OkStatus();
  return Refuse("experts_c2", absl::StrCat(what, " must be i32"));
}

FactorRule InferredRule(const Op& op, const OpCall& call, absl::string_view text) {
  absl::StatusOr<Types> results = op.Infer(call);
  CHECK_OK(results.status());
  return BoundRule(text, call.operands, *results);
}

// Rows are sorted over all tokens: splitting tokens, rows or experts needs an exchange.
FactorRule SetExchange(FactorRule rule) {
  for (absl::string_view label : {"n", "m", "e"}) {
    if (rule.Find(label) >= 0) rule.Set(label, FactorKind::kExpand);
  }
  if (rule.Find("k") >= 0) rule.Set("k", FactorKind::kWhole);
  return rule;
}

double ElementsOf(const OpCall& call, int i) {
  return static_cast<double>(call.operands[i].elements());
}

class DispatchDefinition final : public Op {
 public:
  absl::string_view name() const override { return "dispatch"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(
        CheckAttributeTypes(call, "experts_c3", {{"experts", AttributeKind::kInt, true}}));
    RETURN_IF_ERROR(CheckCount(call, 2));
    RETURN_IF_ERROR(CheckMatrix(call, 0, "x"));
    const Type& x = call.operands[0];
    const Type& chosen = call.operands[1];
    if (chosen.rank() != 2) return Refuse("experts_c1", "experts needs dims [n k]");
    RETURN_IF_ERROR(CheckIndices(call, 1, "experts", {x.dims[0], chosen.dims[1]}));
    int64_t experts = call.attributes.Int("experts"), rows = chosen.elements();
    if (experts < 1 || chosen.dims[1] < 1) return Refuse("experts_c4", "no experts or no slots");
    return Types{{x.dtype, {rows, x.dims[1]}}, {DType::kI32, {experts}}, {DType::kI32, {rows}}};
  }

  absl::Status Gradient(GradientBuilder& g) const override {
    ValueId dx = g.graph().Apply1(
        DispatchGradOp(), {g.dy(0), g.y(2)},
        {{"tokens", g.x_type(1).dims[0]}, {"slots", g.x_type(1).dims[1]}});
    g.Add(0, Convert(g.graph(), dx, g.gradient_dtype(0)));
    return absl::OkStatus();
  }

  FactorRule Factors(const OpCall& call) const override {
    // counts and order do not have c: parts would give them again, not in partial sums.
    return SetExchange(InferredRule(*this, call, "n c, n k -> (n k) c, e, (n k)"))
        .Set("c", FactorKind::kWhole);
  }

  Cost CostOf(const OpCall& call) const override { return {0, BytesOf(call)}; }
};

class DispatchGradDefinition final : public Op {
 public:
  absl::string_view name() const override { return "dispatch_grad"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "experts_c3",
                                        {{"tokens", AttributeKind::kInt, true},
                                         {"slots", AttributeKind::kInt, true}}));
    RETURN_IF_ERROR(CheckCount(call, 2));
    RETURN_IF_ERROR(CheckMatrix(call, 0, "drows"));
    const Type& drows = call.operands[0];
    RETURN_IF_ERROR(CheckIndices(call, 1, "order", {drows.dims[0]}));
    int64_t tokens = call.attributes.Int("tokens"), slots = call.attributes.Int("slots");
    if (tokens < 0 || slots < 1) return Refuse("experts_c4", "tokens or slots is too small");
    if (drows.dims[0] != tokens * slots) {
      return Refuse("experts_c1", absl::StrCat(drows.dims[0], " rows are not ", tokens, " * ",
                                               slots));
    }
    return Types{{drows.dtype, {tokens, drows.dims[1]}}};
  }

  FactorRule Factors(const OpCall& call) const override {
    return SetExchange(InferredRule(*this, call, "m c, m -> n c"));
  }

  Cost CostOf(const OpCall& call) const override { return {ElementsOf(call, 0), BytesOf(call)}; }
};

// Operands rows[m c], order[m], weights[n k] from `first` on.
absl::Status CheckCombine(const OpCall& call, int first) {
  RETURN_IF_ERROR(CheckMatrix(call, first, "rows"));
  RETURN_IF_ERROR(CheckIndices(call, first + 1, "order", {call.operands[first].dims[0]}));
  return CheckMatrix(call, first + 2, "weights");
}

class CombineDefinition final : public Op {
 public:
  absl::string_view name() const override { return "combine"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "experts_c3", {}));
    RETURN_IF_ERROR(CheckCount(call, 3));
    RETURN_IF_ERROR(CheckCombine(call, 0));
    const Type& rows = call.operands[0];
    return Types{{rows.dtype, {call.operands[2].dims[0], rows.dims[1]}}};
  }

  absl::Status Gradient(GradientBuilder& g) const override {
    ValueIds results =
        g.graph().Apply(CombineGradOp(), {g.dy(0), g.x(0), g.x(1), g.x(2)}, {});
    g.Add(0, Convert(g.graph(), results[0], g.gradient_dtype(0)));
    g.Add(2, Convert(g.graph(), results[1], g.gradient_dtype(2)));
    return absl::OkStatus();
  }

  FactorRule Factors(const OpCall& call) const override {
    return SetExchange(InferredRule(*this, call, "m c, m, n k -> n c"));
  }

  Cost CostOf(const OpCall& call) const override {
    return {2 * ElementsOf(call, 0), BytesOf(call)};
  }
};

class CombineGradDefinition final : public Op {
 public:
  absl::string_view name() const override { return "combine_grad"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "experts_c3", {}));
    RETURN_IF_ERROR(CheckCount(call, 4));
    RETURN_IF_ERROR(CheckCombine(call, 1));
    const Type& rows = call.operands[1];
    const Type& weights = call.operands[3];
    RETURN_IF_ERROR(CheckOperand(call, "experts_c1", 0, "dy",
                                 {rows.dtype, {weights.dims[0], rows.dims[1]}}));
    return Types{rows, weights};
  }

  FactorRule Factors(const OpCall& call) const override {
    return SetExchange(InferredRule(*this, call, "n c, m c, m, n k -> m c, n k"));
  }

  Cost CostOf(const OpCall& call) const override {
    return {3 * ElementsOf(call, 1), BytesOf(call)};
  }
};

class GroupedMatmulDefinition final : public Op {
 public:
  absl::string_view name() const override { return "grouped_matmul"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "experts_c3",
                                        {{"transpose", AttributeKind::kBool},
                                         {"dtype", AttributeKind::kString}}));
    RETURN_IF_ERROR(CheckCount(call, 3));
    RETURN_IF_ERROR(CheckMatrix(call, 0, "x"));
    const Type& x = call.operands[0];
    const Type& w = call.operands[1];
    if (w.dtype != x.dtype) return Refuse("experts_c2", "x and w differ in dtype");
    bool transpose = call.attributes.BoolOr("transpose", false);
    if (w.rank() != 3 || w.dims[transpose ? 2 : 1] != x.dims[1]) {
      return Refuse("experts_c1", absl::StrCat("w is ", ToString(w), ", x ", ToString(x)));
    }
    RETURN_IF_ERROR(CheckIndices(call, 2, "counts", {w.dims[0]}));
    ASSIGN_OR_RETURN(DType dtype, FloatAttribute(call, "experts_c5", "dtype", x.dtype));
    return Types{{dtype, {x.dims[0], w.dims[transpose ? 1 : 2]}}};
  }

  absl::Status Gradient(GradientBuilder& g) const override {
    bool transpose = g.attributes().BoolOr("transpose", false);
    ValueId dy = Convert(g.graph(), g.dy(0), g.x_type(0).dtype);
    if (g.needs(0)) {
      g.Add(0, GroupedMatmul(g.graph(), dy, g.x(1), g.x(2), !transpose, g.gradient_dtype(0)));
    }
    if (g.needs(1)) {
      Attributes attributes;
      if (g.gradient_dtype(1) != g.x_type(1).dtype) {
        attributes.Set("dtype", Name(g.gradient_dtype(1)));
      }
      ValueIds operands = transpose ? ValueIds{dy, g.x(0), g.x(2)} : ValueIds{g.x(0), dy, g.x(2)};
      g.Add(1, g.graph().Apply1(GroupedMatmulGradWOp(), std::move(operands),
                                std::move(attributes)));
    }
    return absl::OkStatus();
  }

  FactorRule Factors(const OpCall& call) const override {
    bool transpose = call.attributes.BoolOr("transpose", false);
    return SetExchange(InferredRule(
        *this, call, transpose ? "m c, e d c, e -> m d" : "m c, e c d, e -> m d"));
  }

  // All rows used: an upper bound.
  Cost CostOf(const OpCall& call) const override {
    bool transpose = call.attributes.BoolOr("transpose", false);
    double width = static_cast<double>(call.operands[1].dims[transpose ? 1 : 2]);
    return {2 * ElementsOf(call, 0) * width, BytesOf(call)};
  }
};

class GroupedMatmulGradWDefinition final : public Op {
 public:
  absl::string_view name() const override { return "grouped_matmul_grad_w"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(
        CheckAttributeTypes(call, "experts_c3", {{"dtype", AttributeKind::kString}}));
    RETURN_IF_ERROR(CheckCount(call, 3));
    RETURN_IF_ERROR(CheckMatrix(call, 0, "x"));
    RETURN_IF_ERROR(CheckMatrix(call, 1, "dy"));
    const Type& x = call.operands[0];
    const Type& dy = call.operands[1];
    if (dy.dtype != x.dtype) return Refuse("experts_c2", "x and dy differ in dtype");
    if (dy.dims[0] != x.dims[0]) return Refuse("experts_c1", "x and dy differ in rows");
    if (call.operands[2].rank() != 1) return Refuse("experts_c1", "counts needs one dim");
    RETURN_IF_ERROR(CheckIndices(call, 2, "counts", call.operands[2].dims));
    ASSIGN_OR_RETURN(DType dtype, FloatAttribute(call, "experts_c5", "dtype", x.dtype));
    return Types{{dtype, {call.operands[2].dims[0], x.dims[1], dy.dims[1]}}};
  }

  FactorRule Factors(const OpCall& call) const override {
    return SetExchange(InferredRule(*this, call, "m c, m d, e -> e c d"));
  }

  Cost CostOf(const OpCall& call) const override {
    double width = static_cast<double>(call.operands[1].dims[1]);
    return {2 * ElementsOf(call, 0) * width, BytesOf(call)};
  }
};

}  // namespace

const Op& DispatchOp() {
  static const DispatchDefinition* const op = new DispatchDefinition();
  return *op;
}

const Op& DispatchGradOp() {
  static const DispatchGradDefinition* const op = new DispatchGradDefinition();
  return *op;
}

const Op& CombineOp() {
  static const CombineDefinition* const op = new CombineDefinition();
  return *op;
}

const Op& CombineGradOp() {
  static const CombineGradDefinition* const op = new CombineGradDefinition();
  return *op;
}

const Op& GroupedMatmulOp() {
  static const GroupedMatmulDefinition* const op = new GroupedMatmulDefinition();
  return *op;
}

const Op& GroupedMatmulGradWOp() {
  static const GroupedMatmulGradWDefinition* const op = new GroupedMatmulGradWDefinition();
  return *op;
}

DispatchResults Dispatch(GraphBuilder& graph, ValueId x, ValueId experts, int64_t expert_count,
                         absl::string_view name) {
  ValueIds results = graph.Apply(DispatchOp(), {x, experts}, {{"experts", expert_count}}, name);
  return {results[0], results[1], results[2]};
}

ValueId Combine(GraphBuilder& graph, ValueId rows, ValueId order, ValueId weights,
                absl::string_view name) {
  return graph.Apply1(CombineOp(), {rows, order, weights}, {}, name);
}

ValueId GroupedMatmul(GraphBuilder& graph, ValueId x, ValueId w, ValueId counts, bool transpose,
                      std::optional<DType> result, absl::string_view name) {
  Attributes attributes;
  if (transpose) attributes.Set("transpose", true);
  if (result.has_value() && *result != graph.type(x).dtype) attributes.Set("dtype", Name(*result));
  return graph.Apply1(GroupedMatmulOp(), {x, w, counts}, std::move(attributes), name);
}

}  // namespace colossus
