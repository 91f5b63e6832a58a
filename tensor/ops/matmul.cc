#include "tensor/ops/matmul.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/gradient_builder.h"
#include "tensor/ops/panel_product.h"

namespace colossus {
namespace {

// matmul_c1: two operands of the same float dtype.
// matmul_c2: spec parses, has two operands and one result, no groups, no broadcast dims, and no
//            label twice in one value.
// matmul_c3: every label of the result is in an operand.
// matmul_c4: a label that is in one operand only is in the result (no hidden reduction).
// matmul_c5: extents agree.
// matmul_c6: dtype, if given, is a float type.
// matmul_c7: no other attributes.
absl::Status CheckSpec(const FactorRule& rule) {
  if (rule.operands.size() != 2 || rule.results.size() != 1) {
    return absl::InvalidArgumentError("matmul_c2: spec needs two operands and one result");
  }
  auto labels = [](const ValueFactors& value) -> absl::StatusOr<std::set<int>> {
    std::set<int> seen;
    for (const DimFactors& dim : value) {
      if (dim.size() != 1) return absl::InvalidArgumentError("matmul_c2: groups and 1 not allowed");
      if (!seen.insert(dim[0]).second) {
        return absl::InvalidArgumentError("matmul_c2: a label stands twice in one value");
      }
    }
    return seen;
  };
  ASSIGN_OR_RETURN(std::set<int> a, labels(rule.operands[0]));
  ASSIGN_OR_RETURN(std::set<int> b, labels(rule.operands[1]));
  ASSIGN_OR_RETURN(std::set<int> y, labels(rule.results[0]));
  for (int f : y) {
    if (!a.count(f) && !b.count(f)) {
      return absl::InvalidArgumentError(
          absl::StrCat("matmul_c3: label '", rule.factors[f].label, "' is in no operand"));
    }
  }
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    int i = static_cast<int>(f);
    if (a.count(i) + b.count(i) == 1 && !y.count(i)) {
      return absl::InvalidArgumentError(absl::StrCat("matmul_c4: label '", rule.factors[f].label,
                                                     "' is in one operand and not in the result"));
    }
  }
  return absl::OkStatus();
}

class MatmulDefinition final : public Op {
 public:
  absl::string_view name() const override { return "matmul"; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributes(call, "matmul_c7", {"spec", "dtype"}));
    if (call.operands.size() != 2 || call.operands[0].dtype != call.operands[1].dtype ||
        !IsFloat(call.operands[0].dtype)) {
      return absl::InvalidArgumentError("matmul_c1: needs two operands of the same float dtype");
    }
    if (!call.attributes.HasType<std::string>("spec")) {
      return absl::InvalidArgumentError("matmul_c2: attribute spec is missing");
    }
    absl::StatusOr<FactorRule> parsed = ParseFactorRule(call.attributes.String("spec"));
    if (!parsed.ok()) return Annotate(parsed.status(), "matmul_c2");
    const FactorRule& rule = *parsed;
    RETURN_IF_ERROR(CheckSpec(rule));
    Type result{call.operands[0].dtype, {}};
    if (call.attributes.Has("dtype")) {
      if (!call.attributes.HasType<std::string>("dtype")) {
        return absl::InvalidArgumentError("matmul_c6: dtype is not a string");
      }
      absl::StatusOr<DType> dtype = ParseDType(call.attributes.String("dtype"));
      if (!dtype.ok()) return Annotate(dtype.status(), "matmul_c6");
      result.dtype = *dtype;
      if (!IsFloat(result.dtype)) {
        return absl::InvalidArgumentError("matmul_c6: the result must be a float type");
      }
    }
    FactorRule operands_only = rule;
    operands_only.results.clear();
    RETURN_IF_ERROR(Annotate(operands_only.Bind(call.operands, {}), "matmul_c5"));
    for (const DimFactors& dim : rule.results[0]) {
      result.dims.push_back(operands_only.factors[dim[0]].extent);
    }
    return Types{result};
  }

  // da = dy * b and db = dy * a with the labels of the operand as result: a product of the same
  // kind, since every label of an operand is in the result or in the other operand (c4).
  absl::Status Gradient(GradientBuilder& g) const override {
    ASSIGN_OR_RETURN(FactorRule rule, ParseFactorRule(g.attributes().String("spec")));
    auto labels = [&](const ValueFactors& value) {
      return absl::StrJoin(value, " ", [&](std::string* out, const DimFactors& dim) {
        out->append(rule.factors[dim[0]].label);
      });
    };
    std::string a = labels(rule.operands[0]), b = labels(rule.operands[1]);
    std::string y = labels(rule.results[0]);
    // The cotangent meets the other operand in the operands' dtype.
    ValueId dy = Convert(g.graph(), g.dy(0), g.x_type(0).dtype);
    if (g.needs(0)) {
      g.Add(0, Matmul(g.graph(), absl::StrCat(y, ", ", b, " -> ", a), dy, g.x(1),
                      g.gradient_dtype(0)));
    }
    if (g.needs(1)) {
      g.Add(1, Matmul(g.graph(), absl::StrCat(a, ", ", y, " -> ", b), g.x(0), dy,
                      g.gradient_dtype(1)));
    }
    return absl::OkStatus();
  }

  FactorRule Factors(const OpCall& call) const override {
    absl::StatusOr<FactorRule> rule = ParseFactorRule(call.attributes.String("spec"));
    CHECK_OK(rule.status());
    absl::StatusOr<Types> results = Infer(call);
    CHECK_OK(results.status());
    CHECK_OK(rule->Bind(call.operands, *results));
    return *std::move(rule);
  }

  absl::Status Expand(ShardedCall& call, GraphBuilder& graph) const override {
    return ExpandMatmul(call, graph);
  }

  Cost CostOf(const OpCall& call) const override {
    FactorRule rule = Factors(call);
    double flops = 2;
    for (const Factor& factor : rule.factors) flops *= static_cast<double>(factor.extent);
    return {flops, BytesOf(call)};
  }
};

}  // namespace

const Op& MatmulOp() {
  static const MatmulDefinition* const op = new MatmulDefinition();
  return *op;
}

ValueId Matmul(GraphBuilder& graph, absl::string_view spec, ValueId a, ValueId b,
               std::optional<DType> result, absl::string_view name) {
  Attributes attributes{{"spec", spec}};
  if (result.has_value() && *result != graph.type(a).dtype) {
    attributes.Set("dtype", Name(*result));
  }
  return graph.Apply1(MatmulOp(), {a, b}, std::move(attributes), name);
}

}  // namespace colossus
