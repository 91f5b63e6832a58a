#include "tensor/ops/loss_parts.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/ops/checks.h"

namespace colossus {
namespace {

// loss_parts_c1: two operands; labels is i32 or i64.
// loss_parts_c2: attributes are known and of their types; classes is there and at least 1, origin
// is
//                there (cross_entropy_part) and at least 0.
// loss_parts_c3: (cross_entropy_part) logits is a float type of the labels' dims and one more.
// loss_parts_c4: (cross_entropy_merge) parts is f32 or f64, two rows or more, an even number, each
//                of the labels' dims.
absl::Status CheckLabels(const OpCall& call) {
  if (call.operands.size() == 2 &&
      (call.operands[1].dtype == DType::kI32 || call.operands[1].dtype == DType::kI64)) {
    return absl::OkStatus();
  }
  return Refuse("loss_parts_c1", "needs two operands, the second of i32 or i64");
}

absl::Status CheckAtLeast(const OpCall& call, absl::string_view name, int64_t least) {
  if (call.attributes.Int(name) >= least) return absl::OkStatus();
  return Refuse("loss_parts_c2", absl::StrCat(name, " is ", call.attributes.Int(name)));
}

class CrossEntropyPartDefinition final : public Op {
 public:
  absl::string_view name() const override { return "cross_entropy_part"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckLabels(call));
    RETURN_IF_ERROR(CheckAttributeTypes(
        call, "loss_parts_c2",
        {{"origin", AttributeKind::kInt, true}, {"classes", AttributeKind::kInt, true}}));
    RETURN_IF_ERROR(CheckAtLeast(call, "origin", 0));
    RETURN_IF_ERROR(CheckAtLeast(call, "classes", 1));
    const Type& logits = call.operands[0];
    if (!IsFloat(logits.dtype) || logits.rank() < 1 ||
        call.operands[1].dims != Dims(logits.dims.begin(), logits.dims.end() - 1)) {
      return Refuse("loss_parts_c3", absl::StrCat("logits are ", ToString(logits), ", labels ",
                                                  ToString(call.operands[1])));
    }
    Type part{StatisticsDType(logits.dtype), call.operands[1].dims};
    part.dims.insert(part.dims.begin(), 2);
    return Types{part};
  }

  FactorRule Factors(const OpCall& call) const override {
    std::string lead = LeadingLabels(call.operands[1].rank());
    absl::StatusOr<Types> results = Infer(call);
    CHECK_OK(results.status());
    return BoundRule(absl::StrCat(lead, " v, ", lead, " -> both ", lead), call.operands, *results)
        .Set("v", FactorKind::kWhole)
        .Set("both", FactorKind::kWhole);
  }

  // Per position: maximum, exp of differences and sum, 2 for the logarithm.
  Cost CostOf(const OpCall& call) const override {
    double positions = static_cast<double>(call.operands[1].elements());
    double classes = static_cast<double>(ClassesOfPart(call, call.operands[0].dims.back()));
    return {positions * (4 * classes + 2), BytesOf(call)};
  }
};

class CrossEntropyMergeDefinition final : public Op {
 public:
  absl::string_view name() const override { return "cross_entropy_merge"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckLabels(call));
    RETURN_IF_ERROR(CheckAttributeTypes(
        call, "loss_parts_c2",
        {{"classes", AttributeKind::kInt, true}, {"ignore", AttributeKind::kInt}}));
    RETURN_IF_ERROR(CheckAtLeast(call, "classes", 1));
    const Type& parts = call.operands[0];
    const bool statistics = parts.dtype == DType::kF32 || parts.dtype == DType::kF64;
    if (!statistics || parts.rank() < 1 || parts.dims[0] < 2 || parts.dims[0] % 2 != 0 ||
        call.operands[1].dims != Dims(parts.dims.begin() + 1, parts.dims.end())) {
      return Refuse("loss_parts_c4", absl::StrCat("parts are ", ToString(parts), ", labels ",
                                                  ToString(call.operands[1])));
    }
    return Types{{parts.dtype, {}}, {parts.dtype, call.operands[1].dims}};
  }

  FactorRule Factors(const OpCall& call) const override {
    std::string lead = LeadingLabels(call.operands[1].rank());
    absl::StatusOr<Types> results = Infer(call);
    CHECK_OK(results.status());
    return BoundRule(absl::StrCat("parts ", lead, ", ", lead, " -> , ", lead), call.operands,
                     *results)
        .Set("parts", FactorKind::kWhole);
  }

  // Per position and part: as above and one for the label's logit; 2 for the loss.
  Cost CostOf(const OpCall& call) const override {
    double positions = static_cast<double>(call.operands[1].elements());
    double parts = static_cast<double>(call.operands[0].dims[0] / 2);
    return {positions * (5 * parts + 4), BytesOf(call)};
  }
};

}  // namespace

const Op& CrossEntropyPartOp() {
  static const CrossEntropyPartDefinition* const op = new CrossEntropyPartDefinition();
  return *op;
}

const Op& CrossEntropyMergeOp() {
  static const CrossEntropyMergeDefinition* const op = new CrossEntropyMergeDefinition();
  return *op;
}

ValueId CrossEntropyPart(GraphBuilder& graph, ValueId logits, ValueId labels, int64_t origin,
                         int64_t classes) {
  return graph.Apply1(CrossEntropyPartOp(), {logits, labels},
                      {{"origin", origin}, {"classes", classes}});
}

ValueIds CrossEntropyMerge(GraphBuilder& graph, ValueId parts, ValueId labels, int64_t classes,
                           int64_t ignore) {
  Attributes attributes{{"classes", classes}};
  if (ignore != kIgnoreLabel) attributes.Set("ignore", ignore);
  return graph.Apply(CrossEntropyMergeOp(), {parts, labels}, std::move(attributes));
}

ValueId CrossEntropyGradOfPart(GraphBuilder& graph, ValueId dloss, ValueId logits, ValueId labels,
                               ValueId lse, int64_t origin, int64_t classes, int64_t ignore,
                               DType result) {
  Attributes attributes{{"origin", origin}, {"classes", classes}};
  if (ignore != kIgnoreLabel) attributes.Set("ignore", ignore);
  if (result != graph.type(logits).dtype) attributes.Set("dtype", Name(result));
  return graph.Apply1(CrossEntropyGradOp(), {dloss, logits, labels, lse}, std::move(attributes));
}

}  // namespace colossus
