#include "tensor/ops/sum_squares.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tensor/ops/checks.h"

namespace colossus {
namespace {

// sum_squares_c1: at least one operand, all of float types.
// sum_squares_c2: no attributes.
class SumSquaresDefinition final : public Op {
 public:
  absl::string_view name() const override { return "sum_squares"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "sum_squares_c2", {}));
    if (call.operands.empty()) return Refuse("sum_squares_c1", "needs at least one operand");
    for (const Type& type : call.operands) {
      if (!IsFloat(type.dtype)) {
        return Refuse("sum_squares_c1", absl::StrCat("an operand is ", ToString(type)));
      }
    }
    return Types{{DType::kF64, {}}};
  }

  // Parts of one operand give partial sums. With several, a part of one beside the whole of
  // another would count the latter once per rank: no split.
  FactorRule Factors(const OpCall& call) const override {
    const Type result{DType::kF64, {}};
    if (call.operands.size() > 1) return WholeRule(call.operands, {result});
    return BoundRule(absl::StrCat(LeadingLabels(call.operands[0].rank()), " -> "), call.operands,
                     {result});
  }

  // Two an element, and per block its lanes and itself.
  Cost CostOf(const OpCall& call) const override {
    double flops = 0;
    for (const Type& type : call.operands) {
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

ValueId SumSquares(GraphBuilder& graph, ValueIds values, absl::string_view name) {
  return graph.Apply1(SumSquaresOp(), std::move(values), {}, name);
}

}  // namespace colossus
