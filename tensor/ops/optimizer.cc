#include "tensor/ops/optimizer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/ops/checks.h"

namespace colossus {
namespace {

// With "update" for adamw and sgd:
// update_c1: as many operands as listed; master is f32 or f64.
// update_c2: grad is a float type of master's dims, and f64 exactly if master is.
// update_c3: moments are as master, scalars 0-d in master's dtype.
// update_c4: attributes are known, of their types, and those needed are there.
// update_c5: 0 <= beta, momentum < 1; epsilon, weight_decay >= 0.
// update_c6: compute names a float type.
absl::StatusOr<Types> InferUpdate(const OpCall& call, int moments, int scalars) {
  if (static_cast<int>(call.operands.size()) != 2 + moments + scalars) {
    return Refuse("update_c1", absl::StrCat("needs ", 2 + moments + scalars, " operands"));
  }
  const Type& master = call.operands[0];
  const Type& grad = call.operands[1];
  if (master.dtype != DType::kF32 && master.dtype != DType::kF64) {
    return Refuse("update_c1", absl::StrCat("master is ", ToString(master)));
  }
  if (!IsFloat(grad.dtype) || grad.dims != master.dims ||
      (grad.dtype == DType::kF64) != (master.dtype == DType::kF64)) {
    return Refuse("update_c2", absl::StrCat("grad is ", ToString(grad), ", master ",
                                            ToString(master)));
  }
  for (int i = 2; i < 2 + moments; ++i) {
    RETURN_IF_ERROR(CheckOperand(call, "update_c3", i, "a moment", master));
  }
  for (int i = 2 + moments; i < 2 + moments + scalars; ++i) {
    RETURN_IF_ERROR(CheckOperand(call, "update_c3", i, "a scalar", {master.dtype, {}}));
  }
  Types results(1 + moments, master);
  if (call.attributes.Has("compute")) {
    ASSIGN_OR_RETURN(DType dtype, FloatAttribute(call, "update_c6", "compute", DType::kF32));
    results.push_back({dtype, master.dims});
  }
  return results;
}

absl::Status CheckBelowOne(const OpCall& call, absl::string_view name) {
  double value = call.attributes.Float(name);
  if (value >= 0 && value < 1) return absl::OkStatus();
  return Refuse("update_c5", absl::StrCat(name, " is not in [0, 1)"));
}

absl::Status CheckNotNegative(const OpCall& call, absl::string_view name) {
  if (call.attributes.Float(name) >= 0) return absl::OkStatus();
  return Refuse("update_c5", absl::StrCat(name, " is negative"));
}

// Pointwise over master's dims, scalars everywhere.
FactorRule UpdateFactors(const Op& op, const OpCall& call) {
  absl::StatusOr<Types> results = op.Infer(call);
  CHECK_OK(results.status());
  std::string labels = LeadingLabels(call.operands[0].rank()), text;
  int scalars_from = op.name() == "adamw" ? 4 : 3;
  for (int i = 0; i < static_cast<int>(call.operands.size()); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", i < scalars_from ? labels : "");
  }
  for (size_t i = 0; i < results->size(); ++i) {
    absl::StrAppend(&text, i == 0 ? " -> " : ", ", labels);
  }
  return BoundRule(text, call.operands, *results);
}

// Master and moments in place; the copy may overwrite a gradient of its size.
Aliases UpdateAliases(const OpCall& call, int moments) {
  Aliases aliases{{0, 0}};
  for (int i = 1; i <= moments; ++i) aliases.push_back({i, i + 1});
  if (!call.attributes.Has("compute")) return aliases;
  absl::StatusOr<DType> compute = ParseDType(call.attributes.String("compute"));
  CHECK_OK(compute.status());
  if (SizeOf(*compute) == SizeOf(call.operands[1].dtype)) aliases.push_back({moments + 1, 1});
  return aliases;
}

class AdamwDefinition final : public Op {
 public:
  absl::string_view name() const override { return "adamw"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "update_c4",
                                        {{"beta1", AttributeKind::kFloat, true},
                                         {"beta2", AttributeKind::kFloat, true},
                                         {"epsilon", AttributeKind::kFloat, true},
                                         {"weight_decay", AttributeKind::kFloat, true},
                                         {"compute", AttributeKind::kString}}));
    RETURN_IF_ERROR(CheckBelowOne(call, "beta1"));
    RETURN_IF_ERROR(CheckBelowOne(call, "beta2"));
    RETURN_IF_ERROR(CheckNotNegative(call, "epsilon"));
    RETURN_IF_ERROR(CheckNotNegative(call, "weight_decay"));
    return InferUpdate(call, 2, 4);
  }

  FactorRule Factors(const OpCall& call) const override { return UpdateFactors(*this, call); }

  // Per element: gradient 1, moments 3 + 4, decay 1, step 6; four once.
  Cost CostOf(const OpCall& call) const override {
    return {15 * static_cast<double>(call.operands[0].elements()) + 4, BytesOf(call)};
  }

  Aliases MayAlias(const OpCall& call) const override { return UpdateAliases(call, 2); }
};

class SgdDefinition final : public Op {
 public:
  absl::string_view name() const override { return "sgd"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributeTypes(call, "update_c4",
                                        {{"momentum", AttributeKind::kFloat, true},
                                         {"weight_decay", AttributeKind::kFloat, true},
                                         {"compute", AttributeKind::kString}}));
    RETURN_IF_ERROR(CheckBelowOne(call, "momentum"));
    RETURN_IF_ERROR(CheckNotNegative(call, "weight_decay"));
    return InferUpdate(call, 1, 2);
  }

  FactorRule Factors(const OpCall& call) const override { return UpdateFactors(*this, call); }

  Cost CostOf(const OpCall& call) const override {
    return {7 * static_cast<double>(call.operands[0].elements()), BytesOf(call)};
  }

  Aliases MayAlias(const OpCall& call) const override { return UpdateAliases(call, 1); }
};

}  // namespace

const Op& AdamwOp() {
  static const AdamwDefinition* const op = new AdamwDefinition();
  return *op;
}

const Op& SgdOp() {
  static const SgdDefinition* const op = new SgdDefinition();
  return *op;
}

AdamwResults Adamw(GraphBuilder& graph, ValueId master, ValueId grad, ValueId m, ValueId v,
                   const AdamwScalars& scalars, const AdamwOptions& options,
                   absl::string_view name) {
  Attributes attributes{{"beta1", options.beta1},
                        {"beta2", options.beta2},
                        {"epsilon", options.epsilon},
                        {"weight_decay", options.weight_decay}};
  if (options.compute.has_value()) attributes.Set("compute", Name(*options.compute));
  ValueIds results =
      graph.Apply(AdamwOp(), {master, grad, m, v, scalars.learning_rate, scalars.grad_scale,
                              scalars.correction1, scalars.correction2},
                  std::move(attributes), name);
  return {results[0], results[1], results[2], options.compute.has_value() ? results[3] : kNoValue};
}

SgdResults Sgd(GraphBuilder& graph, ValueId master, ValueId grad, ValueId momentum,
               ValueId learning_rate, ValueId grad_scale, const SgdOptions& options,
               absl::string_view name) {
  Attributes attributes{{"momentum", options.momentum}, {"weight_decay", options.weight_decay}};
  if (options.compute.has_value()) attributes.Set("compute", Name(*options.compute));
  ValueIds results = graph.Apply(SgdOp(), {master, grad, momentum, learning_rate, grad_scale},
                                 std::move(attributes), name);
  return {results[0], results[1], options.compute.has_value() ? results[2] : kNoValue};
}

}  // namespace colossus
