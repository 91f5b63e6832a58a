#include "tensor/ops/attention_merge.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tensor/ops/checks.h"

namespace colossus {
namespace {

// attention_merge_c1: four operands.
// attention_merge_c2: out_a is f32 or f64 with 4 dims; out_b is a float type of its dims.
// attention_merge_c3: lse_a and lse_b have the dims [b h s] of out_a and its dtype.
// attention_merge_c4: no attributes.
class AttentionMergeDefinition final : public Op {
 public:
  absl::string_view name() const override { return "attention_merge"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributes(call, "attention_merge_c4", {}));
    if (call.operands.size() != 4) return Refuse("attention_merge_c1", "needs four operands");
    const Type& a = call.operands[0];
    const Type& b = call.operands[2];
    const bool wide = a.dtype == DType::kF32 || a.dtype == DType::kF64;
    if (!wide || a.rank() != 4 || !IsFloat(b.dtype) || b.dims != a.dims) {
      return Refuse("attention_merge_c2",
                    absl::StrCat("out is ", ToString(a), " and ", ToString(b)));
    }
    const Type lse{a.dtype, {a.dims[0], a.dims[2], a.dims[1]}};
    for (int i : {1, 3}) RETURN_IF_ERROR(CheckOperand(call, "attention_merge_c3", i, "lse", lse));
    return Types{a, lse};
  }

  FactorRule Factors(const OpCall& call) const override {
    const Type &out = call.operands[0], &lse = call.operands[1];
    // lse does not have e and is the same in all parts, not a partial sum.
    return BoundRule("b s h e, b h s, b s h e, b h s -> b s h e, b h s", call.operands, {out, lse})
        .Set("e", FactorKind::kWhole);
  }

  // Per row: maximum, two exponentials of differences, sum, logarithm and its sum, two more
  // exponentials; three an element.
  Cost CostOf(const OpCall& call) const override {
    double rows = static_cast<double>(call.operands[1].elements());
    double e = static_cast<double>(call.operands[0].dims[3]);
    return {rows * (12 + 3 * e), BytesOf(call)};
  }

  Aliases MayAlias(const OpCall&) const override { return {{0, 0}, {1, 1}}; }
};

}  // namespace

const Op& AttentionMergeOp() {
  static const AttentionMergeDefinition* const op = new AttentionMergeDefinition();
  return *op;
}

ValueIds AttentionMerge(GraphBuilder& graph, ValueId out_a, ValueId lse_a, ValueId out_b,
                        ValueId lse_b) {
  return graph.Apply(AttentionMergeOp(), {out_a, lse_a, out_b, lse_b});
}

}  // namespace colossus
