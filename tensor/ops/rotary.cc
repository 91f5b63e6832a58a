#include "tensor/ops/rotary.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tensor/ops/checks.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/gradient_builder.h"

namespace colossus {
namespace {

// rotary_c1: three operands; x is a float type [b s h d].
// rotary_c2: positions is i32[b s].
// rotary_c3: inverse_frequencies is f32 with one dim, and 2 * its extent <= d.
// rotary_c4: attributes are known and of their types.
class RotaryDefinition final : public Op {
 public:
  absl::string_view name() const override { return "rotary"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "rotary_c4",
                                        {{"interleaved", AttributeKind::kBool},
                                         {"scale", AttributeKind::kFloat},
                                         {"inverse", AttributeKind::kBool}}));
    if (call.operands.size() != 3 || !IsFloat(call.operands[0].dtype) ||
        call.operands[0].rank() != 4) {
      return Refuse("rotary_c1", "needs x[b s h d], positions and inverse_frequencies");
    }
    const Type& x = call.operands[0];
    RETURN_IF_ERROR(CheckOperand(call, "rotary_c2", 1, "positions",
                                 {DType::kI32, {x.dims[0], x.dims[1]}}));
    const Type& frequencies = call.operands[2];
    if (frequencies.dtype != DType::kF32 || frequencies.rank() != 1 ||
        2 * frequencies.dims[0] > x.dims[3]) {
      return Refuse("rotary_c3", absl::StrCat("inverse_frequencies are ", ToString(frequencies),
                                              ", head size ", x.dims[3]));
    }
    return Types{x};
  }

  absl::Status Gradient(GradientBuilder& g) const override {
    Attributes attributes = g.attributes();
    attributes.Set("inverse", !attributes.BoolOr("inverse", false));
    ValueId dx = g.graph().Apply1(*this, {g.dy(0), g.x(1), g.x(2)}, std::move(attributes));
    g.Add(0, Convert(g.graph(), dx, g.gradient_dtype(0)));
    return absl::OkStatus();
  }

  FactorRule Factors(const OpCall& call) const override {
    return BoundRule("b s h d, b s, f -> b s h d", call.operands, {call.operands[0]})
        .Set("d", FactorKind::kWhole)
        .Set("f", FactorKind::kWhole);
  }

  // Per position and pair: angle, cos, sin and two scalings; per head 6.
  Cost CostOf(const OpCall& call) const override {
    const Dims& x = call.operands[0].dims;
    double pairs = static_cast<double>(x[0] * x[1] * call.operands[2].dims[0]);
    return {pairs * static_cast<double>(5 + 6 * x[2]), BytesOf(call)};
  }

  Aliases MayAlias(const OpCall&) const override { return {{0, 0}}; }
};

}  // namespace

const Op& RotaryOp() {
  static const RotaryDefinition* const op = new RotaryDefinition();
  return *op;
}

ValueId Rotary(GraphBuilder& graph, ValueId x, ValueId positions, ValueId inverse_frequencies,
               bool interleaved, double scale, absl::string_view name) {
  Attributes attributes;
  if (interleaved) attributes.Set("interleaved", true);
  if (scale != 1) attributes.Set("scale", scale);
  return graph.Apply1(RotaryOp(), {x, positions, inverse_frequencies}, std::move(attributes), name);
}

}  // namespace colossus
