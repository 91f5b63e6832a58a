#include "tensor/ops/convert.h"

#include <string>

#include "base/check.h"
#include "base/status.h"
#include "tensor/ops/gradient_builder.h"

namespace colossus {
namespace {

class ConvertDefinition final : public Op {
 public:
  absl::string_view name() const override { return "convert"; }

  // convert_c1: one operand. convert_c2: dtype names an element type. convert_c3: no other
  // attributes.
  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributes(call, "convert_c3", {"dtype"}));
    if (call.operands.size() != 1) {
      return absl::InvalidArgumentError("convert_c1: needs one operand");
    }
    if (!call.attributes.HasType<std::string>("dtype")) {
      return absl::InvalidArgumentError("convert_c2: attribute dtype is missing");
    }
    absl::StatusOr<DType> dtype = ParseDType(call.attributes.String("dtype"));
    if (!dtype.ok()) return Annotate(dtype.status(), "convert_c2");
    return Types{{*dtype, call.operands[0].dims}};
  }

  absl::Status Gradient(GradientBuilder& g) const override {
    if (IsFloat(g.x_type(0).dtype)) {
      g.Add(0, Convert(g.graph(), g.dy(0), g.gradient_dtype(0)));
    }
    return absl::OkStatus();
  }

  FactorRule Factors(const OpCall& call) const override {
    return PointwiseRule(call.operands, call.operands[0]);
  }

  Cost CostOf(const OpCall& call) const override {
    return {0, BytesOf(call)};
  }
};

}  // namespace

const Op& ConvertOp() {
  static const ConvertDefinition* const op = new ConvertDefinition();
  return *op;
}

ValueId Convert(GraphBuilder& graph, ValueId x, DType dtype, absl::string_view name) {
  if (x == kNoValue || graph.type(x).dtype == dtype) return x;
  return graph.Apply1(ConvertOp(), {x}, {{"dtype", Name(dtype)}}, name);
}

}  // namespace colossus
