#include "tensor/ops/stack.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/ops/constant.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/gradient_builder.h"

namespace colossus {
namespace {

// Labels d0, d1, ... of the large value; the stacked dim is whole, since each part is one index of
// it.
FactorRule StackRule(const Type& large, int dim, int parts, bool large_is_operand) {
  FactorRule rule;
  ValueFactors whole, part;
  for (int d = 0; d < large.rank(); ++d) {
    rule.factors.push_back({absl::StrCat("d", d), large.dims[d],
                            d == dim ? FactorKind::kWhole : FactorKind::kParallel});
    whole.push_back({d});
    if (d != dim) part.push_back({d});
  }
  std::vector<ValueFactors> small(parts, part);
  rule.operands = large_is_operand ? std::vector<ValueFactors>{whole} : small;
  rule.results = large_is_operand ? small : std::vector<ValueFactors>{whole};
  return rule;
}

// unstack_c1: one operand. unstack_c2: dim is one of its dims. unstack_c3: between 1 and 16 parts.
// unstack_c4: no other attributes.
class UnstackDefinition final : public Op {
 public:
  absl::string_view name() const override { return "unstack"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributes(call, "unstack_c4", {"dim"}));
    if (call.operands.size() != 1) {
      return absl::InvalidArgumentError("unstack_c1: needs one operand");
    }
    const Type& x = call.operands[0];
    if (!call.attributes.HasType<int64_t>("dim") || call.attributes.Int("dim") < 0 ||
        call.attributes.Int("dim") >= x.rank()) {
      return absl::InvalidArgumentError(absl::StrCat("unstack_c2: dim must be one of ",
                                                     ToString(x)));
    }
    int64_t dim = call.attributes.Int("dim"), parts = x.dims[dim];
    if (parts < 1 || parts > GraphBuilder::kMaxResults) {
      return absl::InvalidArgumentError(absl::StrCat("unstack_c3: ", parts, " parts, not 1 to ",
                                                     GraphBuilder::kMaxResults));
    }
    Type part = x;
    part.dims.erase(part.dims.begin() + dim);
    return Types(parts, part);
  }

  absl::Status Gradient(GradientBuilder& g) const override {
    int dim = static_cast<int>(g.attributes().Int("dim"));
    int parts = static_cast<int>(g.x_type(0).dims[dim]);
    ValueIds cotangents;
    for (int i = 0; i < parts; ++i) {
      const Type& type = g.y_type(i);
      cotangents.push_back(g.has_dy(i) ? g.dy(i) : Constant(g.graph(), type.dtype, type.dims, {0}));
    }
    ValueId dx = Stack(g.graph(), std::move(cotangents), dim);
    g.Add(0, Convert(g.graph(), dx, g.gradient_dtype(0)));
    return absl::OkStatus();
  }

  FactorRule Factors(const OpCall& call) const override {
    int dim = static_cast<int>(call.attributes.Int("dim"));
    int parts = static_cast<int>(call.operands[0].dims[dim]);
    return StackRule(call.operands[0], dim, parts, /*large_is_operand=*/true);
  }

  Cost CostOf(const OpCall& call) const override { return {0, BytesOf(call)}; }
};

// stack_c1: between 1 and 16 operands. stack_c2: all of one type. stack_c3: dim is one of the
// result's. stack_c4: no other attributes.
class StackDefinition final : public Op {
 public:
  absl::string_view name() const override { return "stack"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributes(call, "stack_c4", {"dim"}));
    if (call.operands.empty() || call.operands.size() > GraphBuilder::kMaxResults) {
      return absl::InvalidArgumentError("stack_c1: needs 1 to 16 operands");
    }
    for (const Type& type : call.operands) {
      if (type != call.operands[0]) {
        return absl::InvalidArgumentError(absl::StrCat("stack_c2: ", ToString(type), " beside ",
                                                       ToString(call.operands[0])));
      }
    }
    Type result = call.operands[0];
    if (!call.attributes.HasType<int64_t>("dim") || call.attributes.Int("dim") < 0 ||
        call.attributes.Int("dim") > result.rank()) {
      return absl::InvalidArgumentError("stack_c3: dim must be one of the result's");
    }
    result.dims.insert(result.dims.begin() + call.attributes.Int("dim"),
                       static_cast<int64_t>(call.operands.size()));
    return Types{result};
  }

  absl::Status Gradient(GradientBuilder& g) const override {
    ValueIds parts = Unstack(g.graph(), g.dy(0), static_cast<int>(g.attributes().Int("dim")));
    for (int i = 0; i < g.x_count(); ++i) {
      if (g.needs(i)) g.Add(i, Convert(g.graph(), parts[i], g.gradient_dtype(i)));
    }
    return absl::OkStatus();
  }

  FactorRule Factors(const OpCall& call) const override {
    absl::StatusOr<Types> results = Infer(call);
    CHECK_OK(results.status());
    return StackRule((*results)[0], static_cast<int>(call.attributes.Int("dim")),
                     static_cast<int>(call.operands.size()), /*large_is_operand=*/false);
  }

  Cost CostOf(const OpCall& call) const override { return {0, BytesOf(call)}; }
};

}  // namespace

const Op& UnstackOp() {
  static const UnstackDefinition* const op = new UnstackDefinition();
  return *op;
}

const Op& StackOp() {
  static const StackDefinition* const op = new StackDefinition();
  return *op;
}

ValueIds Unstack(GraphBuilder& graph, ValueId x, int dim) {
  return graph.Apply(UnstackOp(), {x}, {{"dim", dim}});
}

ValueId Stack(GraphBuilder& graph, ValueIds parts, int dim) {
  return graph.Apply1(StackOp(), std::move(parts), {{"dim", dim}});
}

}  // namespace colossus
