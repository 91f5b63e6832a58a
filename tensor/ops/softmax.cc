#include "tensor/ops/softmax.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/gradient_builder.h"

namespace colossus {
namespace {

// Both ops: row by row, so all dims but the last are independent, and each row is read whole before
// it is written.
class RowOp : public Op {
 public:
  // softmax_c1: one operand; softmax_grad: two of the same type.
  // softmax_c2: a float type with at least one dim.
  // softmax_c3: no attributes.
  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributes(call, "softmax_c3", {}));
    if (static_cast<int>(call.operands.size()) != arity_ ||
        call.operands.front() != call.operands.back()) {
      return absl::InvalidArgumentError(
          absl::StrCat("softmax_c1: ", name(), " needs ", arity_, " operands of one type"));
    }
    const Type& x = call.operands[0];
    if (!IsFloat(x.dtype) || x.rank() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("softmax_c2: ", ToString(x), " is not a float type with at least one dim"));
    }
    return Types{x};
  }

  FactorRule Factors(const OpCall& call) const override {
    FactorRule rule = PointwiseRule(call.operands, call.operands[0]);
    rule.factors.back().kind = FactorKind::kWhole;
    return rule;
  }

  Cost CostOf(const OpCall& call) const override {
    return {flops_ * static_cast<double>(call.operands[0].elements()), BytesOf(call)};
  }

  Aliases MayAlias(const OpCall&) const override {
    return arity_ == 1 ? Aliases{{0, 0}} : Aliases{{0, 0}, {0, 1}};
  }

 protected:
  RowOp(int arity, double flops) : arity_(arity), flops_(flops) {}

 private:
  const int arity_;
  const double flops_;  // per element
};

class SoftmaxDefinition final : public RowOp {
 public:
  SoftmaxDefinition() : RowOp(1, 5) {}
  absl::string_view name() const override { return "softmax"; }

  absl::Status Gradient(GradientBuilder& g) const override {
    ValueId dx = g.graph().Apply1(SoftmaxGradOp(), {g.dy(0), g.y(0)});
    g.Add(0, Convert(g.graph(), dx, g.gradient_dtype(0)));
    return absl::OkStatus();
  }
};

class SoftmaxGradDefinition final : public RowOp {
 public:
  SoftmaxGradDefinition() : RowOp(2, 4) {}
  absl::string_view name() const override { return "softmax_grad"; }
};

}  // namespace

const Op& SoftmaxOp() {
  static const SoftmaxDefinition* const op = new SoftmaxDefinition();
  return *op;
}

const Op& SoftmaxGradOp() {
  static const SoftmaxGradDefinition* const op = new SoftmaxGradDefinition();
  return *op;
}

ValueId Softmax(GraphBuilder& b, ValueId x) { return b.Apply1(SoftmaxOp(), {x}); }

}  // namespace colossus
