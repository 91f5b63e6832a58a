#include "tensor/ops/sum_squares.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tensor/ops/checks.h"

namespace colossus {
namespace {

// sum_squares_c1: at least one operand beside the total, all of float types.
// sum_squares_c2: attributes are known and of their types.
// sum_squares_c3: with continues the first operand is the total, f64[].
class SumSquaresDefinition final : public Op {
 public:
  absl::string_view name() const override { return "sum_squares"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(
        CheckAttributeTypes(call, "sum_squares_c2", {{"continues", AttributeKind::kBool}}));
    const bool continues = ContinuesTotal(call.attributes);
    if (call.operands.size() <= static_cast<size_t>(continues)) {
      return Refuse("sum_squares_c1", "needs at least one operand");
    }
    if (continues) {
      RETURN_IF_ERROR(CheckOperand(call, "sum_squares_c3", 0, "total", {DType::kF64, {}}));
    }
    for (const Type& type : call.operands) {
      if (!IsFloat(type.dtype)) {
        return Refuse("sum_squares_c1", absl::StrCat("an operand is ", ToString(type)));
      }
    }
    return Types{{DType::kF64, {}}};
  }

  // Parts of one operand give partial sums. With several, a part of one beside the whole of
  // another would count the latter once per rank: no split. The total is such another.
  FactorRule Factors(const OpCall& call) const override {
    const Type result{DType::kF64, {}};
    if (call.operands.size() > 1) return WholeRule(call.operands, {result});
    return BoundRule(absl::StrCat(LeadingLabels(call.operands[0].rank()), " -> "), call.operands,
                     {result});
  }

  // Two an element, and per block its lanes and itself.
  Cost CostOf(const OpCall& call) const override {
    double flops = 0;
    const size_t first = ContinuesTotal(call.attributes) ? 1 : 0;
    for (size_t i = first; i < call.operands.size(); ++i) {
      const Type& type = call.operands[i];
      int64_t blocks = (type.elements() + kSumSquaresBlock - 1) / kSumSquaresBlock;
      flops += static_cast<double>(2 * type.elements() + blocks * (kSumSquaresLanes + 1));
    }
    return {flops, BytesOf(call)};
  }
};

}  // namespace

const Op& SumSquaresOp() {
  static const SumSquaresDefinition* const op = new SumSquaresDefinition();
  return *op;
}

ValueId SumSquares(GraphBuilder& graph, ValueIds values, ValueId total, absl::string_view name) {
  Attributes attributes;
  if (total != kNoValue) {
    values.insert(values.begin(), total);
    attributes.Set("continues", true);
  }
  return graph.Apply1(SumSquaresOp(), std::move(values), std::move(attributes), name);
}

bool ContinuesTotal(const Attributes& attributes) { return attributes.BoolOr("continues", false); }

}  // namespace colossus
