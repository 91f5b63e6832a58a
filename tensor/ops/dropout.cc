#include "tensor/ops/dropout.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/ops/checks.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/gradient_builder.h"

namespace colossus {
namespace {

// dropout_c1: three operands and those of "with"; x is a float type with at least one dim.
// dropout_c2: key is i64[2], first_row i64[].
// dropout_c3: attributes are known and of their types; rate and site are there, site is not empty.
// dropout_c4: 0 <= rate < 1.
// dropout_c5: origin and global have an entry per dim, and the part lies inside but for dim 0,
//             which first_row shifts, and for dim 1 if positions say where its elements are.
// dropout_c6: positions is i32[d0 d1], and x has at least three dims.
absl::Status CheckPart(const OpCall& call) {
  const Dims& dims = call.operands[0].dims;
  for (absl::string_view name : {"origin", "global"}) {
    if (call.attributes.Has(name) && call.attributes.IntList(name).size() != dims.size()) {
      return Refuse("dropout_c5", absl::StrCat(name, " needs ", dims.size(), " entries"));
    }
  }
  const bool positions = call.operands.size() == 4;
  for (size_t d = 0; d < dims.size(); ++d) {
    int64_t origin = call.attributes.Has("origin") ? call.attributes.IntList("origin")[d] : 0;
    int64_t global = call.attributes.Has("global") ? call.attributes.IntList("global")[d] : dims[d];
    const bool told = d == 0 || (d == 1 && positions);
    if (origin < 0 || global < 1 || (!told && origin + dims[d] > global)) {
      return Refuse("dropout_c5", absl::StrCat("dim ", d, " lies outside the whole"));
    }
  }
  return absl::OkStatus();
}

class DropoutDefinition final : public Op {
 public:
  absl::string_view name() const override { return "dropout"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "dropout_c3",
                                        {{"rate", AttributeKind::kFloat, true},
                                         {"site", AttributeKind::kString, true},
                                         {"origin", AttributeKind::kInts},
                                         {"global", AttributeKind::kInts},
                                         {"with", AttributeKind::kStrings}}));
    RETURN_IF_ERROR(CheckRoles(call, "dropout_c1", 3, {"positions"}));
    if (!IsFloat(call.operands[0].dtype) || call.operands[0].rank() < 1) {
      return Refuse("dropout_c1", "needs x (a float type with dims), key and first_row");
    }
    RETURN_IF_ERROR(CheckOperand(call, "dropout_c2", 1, "key", {DType::kI64, {2}}));
    RETURN_IF_ERROR(CheckOperand(call, "dropout_c2", 2, "first_row", {DType::kI64, {}}));
    if (call.attributes.String("site").empty()) return Refuse("dropout_c3", "site is empty");
    double rate = call.attributes.Float("rate");
    if (!(rate >= 0 && rate < 1)) return Refuse("dropout_c4", "rate is not in [0, 1)");
    RETURN_IF_ERROR(CheckPart(call));
    if (call.operands.size() == 4) {
      const Dims& dims = call.operands[0].dims;
      if (dims.size() < 3) return Refuse("dropout_c6", "positions need x of three dims or more");
      RETURN_IF_ERROR(
          CheckOperand(call, "dropout_c6", 3, "positions", {DType::kI32, {dims[0], dims[1]}}));
    }
    return Types{call.operands[0]};
  }

  absl::Status Gradient(GradientBuilder& g) const override {
    ValueIds operands{g.dy(0)};
    for (int i = 1; i < g.x_count(); ++i) operands.push_back(g.x(i));
    ValueId dx = g.graph().Apply1(*this, std::move(operands), g.attributes());
    g.Add(0, Convert(g.graph(), dx, g.gradient_dtype(0)));
    return absl::OkStatus();
  }

  FactorRule Factors(const OpCall& call) const override {
    std::string labels = LeadingLabels(call.operands[0].rank());
    FactorRule rule = BoundRule(
        absl::StrCat(labels, ", key, ", call.operands.size() == 4 ? ", d0 d1" : "", " -> ", labels),
        call.operands, {call.operands[0]});
    for (Factor& factor : rule.factors) factor.kind = FactorKind::kIndexed;
    return rule.Set("key", FactorKind::kWhole);
  }

  absl::StatusOr<Attributes> Localize(const OpCall& call,
                                      absl::Span<const FactorPart> parts) const override {
    Attributes local = call.attributes;
    FactorRule rule = Factors(call);
    SetPart(rule, rule.results[0], call.operands[0].dims, parts, local);
    return local;
  }

  // Drawing counts nothing: its operations are on integers.
  Cost CostOf(const OpCall& call) const override {
    return {static_cast<double>(call.operands[0].elements()), BytesOf(call)};
  }

  Aliases MayAlias(const OpCall&) const override { return {{0, 0}}; }
};

}  // namespace

const Op& DropoutOp() {
  static const DropoutDefinition* const op = new DropoutDefinition();
  return *op;
}

ValueId Dropout(GraphBuilder& graph, ValueId x, ValueId key, ValueId first_row, double rate,
                absl::string_view site, absl::string_view name, ValueId positions,
                int64_t row_length) {
  const Dims& dims = graph.type(x).dims;
  ValueIds operands{x, key, first_row};
  Strings with;
  AddOptionalOperand("positions", positions, operands, with);
  Attributes attributes{{"rate", rate}, {"site", site}};
  if (!with.empty()) attributes.Set("with", std::move(with));
  if (row_length > 0 && dims.size() > 1) {
    Ints global(dims.begin(), dims.end());
    global[1] = row_length;
    attributes.Set("global", std::move(global));
  }
  return graph.Apply1(DropoutOp(), std::move(operands), std::move(attributes), name);
}

}  // namespace colossus
