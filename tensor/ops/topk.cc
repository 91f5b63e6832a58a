#include "tensor/ops/topk.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/ops/checks.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/gradient_builder.h"

namespace colossus {
namespace {

// topk_c1: scores is a float type [n e]; (topk_grad) dvalues is a float type [n k], indices i32 of
//          the same dims.
// topk_c2: attributes are known, of their types, and there.
// topk_c3: 1 <= k <= e.
class TopkDefinition final : public Op {
 public:
  absl::string_view name() const override { return "topk"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "topk_c2", {{"k", AttributeKind::kInt, true}}));
    if (call.operands.size() != 1 || call.operands[0].rank() != 2 ||
        !IsFloat(call.operands[0].dtype)) {
      return Refuse("topk_c1", "needs float scores[n e]");
    }
    const Type& scores = call.operands[0];
    int64_t k = call.attributes.Int("k");
    if (k < 1 || k > scores.dims[1]) {
      return Refuse("topk_c3", absl::StrCat("k ", k, " is not in 1 to ", scores.dims[1]));
    }
    Dims dims{scores.dims[0], k};
    return Types{{scores.dtype, dims}, {DType::kI32, dims}};
  }

  absl::Status Gradient(GradientBuilder& g) const override {
    ValueId dx = g.graph().Apply1(TopkGradOp(), {g.dy(0), g.y(1)},
                                  {{"entries", g.x_type(0).dims[1]}});
    g.Add(0, Convert(g.graph(), dx, g.gradient_dtype(0)));
    return absl::OkStatus();
  }

  FactorRule Factors(const OpCall& call) const override {
    absl::StatusOr<Types> results = Infer(call);
    CHECK_OK(results.status());
    return BoundRule("n e -> n k, n k", call.operands, *results)
        .Set("e", FactorKind::kWhole)
        .Set("k", FactorKind::kWhole);
  }

  // Comparisons count nothing.
  Cost CostOf(const OpCall& call) const override { return {0, BytesOf(call)}; }
};

class TopkGradDefinition final : public Op {
 public:
  absl::string_view name() const override { return "topk_grad"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "topk_c2", {{"entries", AttributeKind::kInt, true}}));
    if (call.operands.size() != 2 || call.operands[0].rank() != 2 ||
        !IsFloat(call.operands[0].dtype)) {
      return Refuse("topk_c1", "needs float dvalues[n k] and indices");
    }
    const Type& dvalues = call.operands[0];
    RETURN_IF_ERROR(CheckOperand(call, "topk_c1", 1, "indices", {DType::kI32, dvalues.dims}));
    int64_t entries = call.attributes.Int("entries");
    if (entries < dvalues.dims[1]) return Refuse("topk_c3", "entries is less than k");
    return Types{{dvalues.dtype, {dvalues.dims[0], entries}}};
  }

  FactorRule Factors(const OpCall& call) const override {
    absl::StatusOr<Types> results = Infer(call);
    CHECK_OK(results.status());
    return BoundRule("n k, n k -> n e", call.operands, *results)
        .Set("e", FactorKind::kWhole)
        .Set("k", FactorKind::kWhole);
  }

  Cost CostOf(const OpCall& call) const override { return {0, BytesOf(call)}; }
};

}  // namespace

const Op& TopkOp() {
  static const TopkDefinition* const op = new TopkDefinition();
  return *op;
}

const Op& TopkGradOp() {
  static const TopkGradDefinition* const op = new TopkGradDefinition();
  return *op;
}

TopkResults Topk(GraphBuilder& graph, ValueId scores, int64_t k, absl::string_view name) {
  ValueIds results = graph.Apply(TopkOp(), {scores}, {{"k", k}}, name);
  return {results[0], results[1]};
}

}  // namespace colossus
