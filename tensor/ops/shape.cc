#include "tensor/ops/shape.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/ops/checks.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/gradient_builder.h"
#include "tensor/ops/reduce.h"

namespace colossus {
namespace {

Ints ToInts(absl::Span<const int64_t> dims) { return Ints(dims.begin(), dims.end()); }

// One operand.
absl::Status NeedOneOperand(const OpCall& call, absl::string_view constraint) {
  if (call.operands.size() == 1) return absl::OkStatus();
  return Refuse(constraint, "needs one operand");
}

// An int per dim of operand 0, none below 0.
absl::Status NeedIntPerDim(const OpCall& call, absl::string_view constraint,
                           absl::string_view attribute) {
  if (!call.attributes.HasType<Ints>(attribute)) {
    return Refuse(constraint, absl::StrCat("attribute ", attribute, " is missing"));
  }
  const Ints& values = call.attributes.IntList(attribute);
  if (static_cast<int>(values.size()) != call.operands[0].rank() ||
      std::any_of(values.begin(), values.end(), [](int64_t v) { return v < 0; })) {
    return Refuse(constraint, absl::StrCat(attribute, " [", absl::StrJoin(values, ", "),
                                           "] must be one value of at least 0 per dim of ",
                                           ToString(call.operands[0])));
  }
  return absl::OkStatus();
}

// The base of ops that move elements without arithmetic.
class ShapeOp : public Op {
 public:
  Cost CostOf(const OpCall& call) const override { return {0, BytesOf(call)}; }

 protected:
  Type ResultOf(const OpCall& call) const {
    absl::StatusOr<Types> types = Infer(call);
    CHECK_OK(types.status());
    return (*types)[0];
  }

  // dy in the dtype in which the cotangent of operand 0 is wanted.
  static ValueId WantedDy(GradientBuilder& g) {
    return Convert(g.graph(), g.dy(0), g.gradient_dtype(0));
  }

  // The rule of a dim-by-dim op: `whole[d]` dims stay together, with labels of their own on each
  // side, since their extents may differ.
  static FactorRule DimwiseRule(const Type& x, const Type& y, const std::vector<bool>& whole) {
    FactorRule rule;
    ValueFactors operand, result;
    auto add = [&](absl::string_view prefix, int d, int64_t extent, FactorKind kind) {
      rule.factors.push_back({absl::StrCat(prefix, d), extent, kind});
      return static_cast<int>(rule.factors.size()) - 1;
    };
    for (int d = 0; d < x.rank(); ++d) {
      if (whole[d]) {
        operand.push_back({add("x", d, x.dims[d], FactorKind::kWhole)});
        result.push_back({add("y", d, y.dims[d], FactorKind::kWhole)});
      } else {
        int factor = add("d", d, x.dims[d], FactorKind::kParallel);
        operand.push_back({factor});
        result.push_back({factor});
      }
    }
    rule.operands = {operand};
    rule.results = {result};
    return rule;
  }
};

class ReshapeDefinition final : public ShapeOp {
 public:
  absl::string_view name() const override { return "reshape"; }
  bool IsView(const OpCall&) const override { return true; }

  // reshape_c1: one operand.
  // reshape_c2: spec has one operand and one result with the same labels, each once, in the same
  //             order.
  // reshape_c3: dims (ints) are there, and spec agrees with the operand's dims and with them.
  // reshape_c4: every label's extent follows from the dims.
  // reshape_c5: no other attributes.
  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributes(call, "reshape_c5", {"spec", "dims"}));
    RETURN_IF_ERROR(NeedOneOperand(call, "reshape_c1"));
    if (!call.attributes.HasType<std::string>("spec")) {
      return Refuse("reshape_c2", "attribute spec is missing");
    }
    absl::StatusOr<FactorRule> rule = ParseFactorRule(call.attributes.String("spec"));
    if (!rule.ok()) return Annotate(rule.status(), "reshape_c2");
    if (rule->operands.size() != 1 || rule->results.size() != 1 ||
        !EachOnceInOrder(rule->operands[0], rule->factors.size()) ||
        !EachOnceInOrder(rule->results[0], rule->factors.size())) {
      return Refuse("reshape_c2", absl::StrCat("spec '", call.attributes.String("spec"),
                                               "' does not keep its labels in order"));
    }
    if (!call.attributes.HasType<Ints>("dims")) {
      return Refuse("reshape_c3", "attribute dims is missing");
    }
    const Ints& dims = call.attributes.IntList("dims");
    Type result{call.operands[0].dtype, Dims(dims.begin(), dims.end())};
    absl::Status bound = rule->Bind(call.operands, {result});
    if (!bound.ok()) return Annotate(bound, "reshape_c3");
    for (const Factor& factor : rule->factors) {
      if (factor.extent == 0 && result.elements() != 0) {
        return Refuse("reshape_c4", absl::StrCat("the extent of '", factor.label,
                                                 "' does not follow from the dims"));
      }
    }
    if (result.elements() != call.operands[0].elements()) {
      return Refuse("reshape_c3",
                    absl::StrCat(ToString(call.operands[0]), " cannot become ", ToString(result)));
    }
    return Types{result};
  }

  absl::Status Gradient(GradientBuilder& g) const override {
    ASSIGN_OR_RETURN(FactorRule rule, ParseFactorRule(g.attributes().String("spec")));
    std::swap(rule.operands, rule.results);
    g.Add(0, Reshape(g.graph(), WantedDy(g), rule.ToString(), g.x_type(0).dims));
    return absl::OkStatus();
  }

  FactorRule Factors(const OpCall& call) const override {
    absl::StatusOr<FactorRule> rule = ParseFactorRule(call.attributes.String("spec"));
    CHECK_OK(rule.status());
    CHECK_OK(rule->Bind(call.operands, {ResultOf(call)}));
    return *std::move(rule);
  }

  absl::StatusOr<Attributes> Localize(const OpCall& call,
                                      absl::Span<const FactorPart> parts) const override {
    Attributes local = call.attributes;
    Ints dims;
    FactorRule rule = Factors(call);
    for (const DimFactors& dim : rule.results[0]) {
      dims.push_back(PartOfDim(rule, dim, parts).extent);
    }
    local.Set("dims", dims);
    return local;
  }

  Aliases MayAlias(const OpCall&) const override { return {{0, 0}}; }

 private:
  // The parser numbers labels as they first appear, so the operand has 0, 1, 2 ...
  static bool EachOnceInOrder(const ValueFactors& dims, size_t count) {
    size_t next = 0;
    for (const DimFactors& dim : dims) {
      for (int f : dim) {
        if (f != static_cast<int>(next++)) return false;
      }
    }
    return next == count;
  }
};

class TransposeDefinition final : public ShapeOp {
 public:
  absl::string_view name() const override { return "transpose"; }

  // transpose_c1: one operand. transpose_c2: perm (ints) is a permutation of its dims.
  // transpose_c3: no other attributes.
  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributes(call, "transpose_c3", {"perm"}));
    RETURN_IF_ERROR(NeedOneOperand(call, "transpose_c1"));
    RETURN_IF_ERROR(NeedIntPerDim(call, "transpose_c2", "perm"));
    const Ints& perm = call.attributes.IntList("perm");
    Ints sorted = perm;
    std::sort(sorted.begin(), sorted.end());
    for (size_t d = 0; d < sorted.size(); ++d) {
      if (sorted[d] != static_cast<int64_t>(d)) {
        return Refuse("transpose_c2",
                      absl::StrCat("[", absl::StrJoin(perm, ", "), "] is no permutation"));
      }
    }
    Type result{call.operands[0].dtype, {}};
    for (int64_t d : perm) result.dims.push_back(call.operands[0].dims[d]);
    return Types{result};
  }

  absl::Status Gradient(GradientBuilder& g) const override {
    const Ints& perm = g.attributes().IntList("perm");
    Ints inverse(perm.size());
    for (size_t d = 0; d < perm.size(); ++d) inverse[perm[d]] = static_cast<int64_t>(d);
    g.Add(0, Transpose(g.graph(), WantedDy(g), inverse));
    return absl::OkStatus();
  }

  FactorRule Factors(const OpCall& call) const override {
    FactorRule rule = PointwiseRule(call.operands, call.operands[0]);
    ValueFactors result;
    for (int64_t d : call.attributes.IntList("perm")) result.push_back({static_cast<int>(d)});
    rule.results = {result};
    return rule;
  }
};

class SliceDefinition final : public ShapeOp {
 public:
  absl::string_view name() const override { return "slice"; }

  // slice_c1: one operand. slice_c2: starts and limits (ints), one per dim.
  // slice_c3: starts[d] <= limits[d] <= extent of dim d. slice_c4: no other attributes.
  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributes(call, "slice_c4", {"starts", "limits"}));
    RETURN_IF_ERROR(NeedOneOperand(call, "slice_c1"));
    RETURN_IF_ERROR(NeedIntPerDim(call, "slice_c2", "starts"));
    RETURN_IF_ERROR(NeedIntPerDim(call, "slice_c2", "limits"));
    const Ints& starts = call.attributes.IntList("starts");
    const Ints& limits = call.attributes.IntList("limits");
    const Type& x = call.operands[0];
    Type result{x.dtype, {}};
    for (int d = 0; d < x.rank(); ++d) {
      if (starts[d] > limits[d] || limits[d] > x.dims[d]) {
        return Refuse("slice_c3", absl::StrCat("[", starts[d], ", ", limits[d],
                                               ") is no range of dim ", d, " of ", ToString(x)));
      }
      result.dims.push_back(limits[d] - starts[d]);
    }
    return Types{result};
  }

  absl::Status Gradient(GradientBuilder& g) const override {
    Ints high = ToInts(g.x_type(0).dims);
    const Ints& limits = g.attributes().IntList("limits");
    for (size_t d = 0; d < high.size(); ++d) high[d] -= limits[d];
    g.Add(0, Pad(g.graph(), WantedDy(g), g.attributes().IntList("starts"), high));
    return absl::OkStatus();
  }

  // A dim that is cut must stay whole; the others are independent.
  FactorRule Factors(const OpCall& call) const override {
    const Type& x = call.operands[0];
    Type y = ResultOf(call);
    std::vector<bool> whole;
    for (int d = 0; d < x.rank(); ++d) whole.push_back(x.dims[d] != y.dims[d]);
    return DimwiseRule(x, y, whole);
  }

  absl::StatusOr<Attributes> Localize(const OpCall& call,
                                      absl::Span<const FactorPart> parts) const override {
    Attributes local = call.attributes;
    FactorRule rule = Factors(call);
    Ints limits = call.attributes.IntList("limits");
    for (size_t d = 0; d < limits.size(); ++d) {
      limits[d] =
          call.attributes.IntList("starts")[d] + PartOfDim(rule, rule.results[0][d], parts).extent;
    }
    local.Set("limits", limits);
    return local;
  }
};

class PadDefinition final : public ShapeOp {
 public:
  absl::string_view name() const override { return "pad"; }

  // pad_c1: one operand. pad_c2: low and high (ints), one of at least 0 per dim.
  // pad_c3: value (float) is there. pad_c4: no other attributes.
  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributes(call, "pad_c4", {"low", "high", "value"}));
    RETURN_IF_ERROR(NeedOneOperand(call, "pad_c1"));
    RETURN_IF_ERROR(NeedIntPerDim(call, "pad_c2", "low"));
    RETURN_IF_ERROR(NeedIntPerDim(call, "pad_c2", "high"));
    if (!call.attributes.HasType<double>("value")) {
      return Refuse("pad_c3", "attribute value of type float is missing");
    }
    Type result = call.operands[0];
    for (int d = 0; d < result.rank(); ++d) {
      result.dims[d] += call.attributes.IntList("low")[d] + call.attributes.IntList("high")[d];
    }
    return Types{result};
  }

  absl::Status Gradient(GradientBuilder& g) const override {
    const Ints& low = g.attributes().IntList("low");
    Ints limits = ToInts(g.x_type(0).dims);
    for (size_t d = 0; d < limits.size(); ++d) limits[d] += low[d];
    g.Add(0, Slice(g.graph(), WantedDy(g), low, limits));
    return absl::OkStatus();
  }

  // A dim that grows must stay whole; the others are independent.
  FactorRule Factors(const OpCall& call) const override {
    const Type& x = call.operands[0];
    Type y = ResultOf(call);
    std::vector<bool> whole;
    for (int d = 0; d < x.rank(); ++d) whole.push_back(x.dims[d] != y.dims[d]);
    return DimwiseRule(x, y, whole);
  }
};

class ConcatDefinition final : public ShapeOp {
 public:
  absl::string_view name() const override { return "concat"; }

  // concat_c1: at least one operand, all of one dtype. concat_c2: dim (int) is a dim of them.
  // concat_c3: all other dims agree. concat_c4: no other attributes.
  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributes(call, "concat_c4", {"dim"}));
    if (call.operands.empty()) return Refuse("concat_c1", "needs at least one operand");
    Type result = call.operands[0];
    if (!call.attributes.HasType<int64_t>("dim") || call.attributes.Int("dim") < 0 ||
        call.attributes.Int("dim") >= result.rank()) {
      return Refuse("concat_c2", absl::StrCat("dim must be a dim of ", ToString(result)));
    }
    int64_t dim = call.attributes.Int("dim");
    result.dims[dim] = 0;
    for (const Type& x : call.operands) {
      if (x.dtype != result.dtype) return Refuse("concat_c1", "operands differ in dtype");
      bool agrees = x.rank() == result.rank();
      for (int d = 0; agrees && d < x.rank(); ++d) agrees = d == dim || x.dims[d] == result.dims[d];
      if (!agrees) {
        return Refuse("concat_c3", absl::StrCat(ToString(x), " does not fit ",
                                                ToString(call.operands[0]), " but in dim ", dim));
      }
      result.dims[dim] += x.dims[dim];
    }
    return Types{result};
  }

  absl::Status Gradient(GradientBuilder& g) const override {
    int64_t dim = g.attributes().Int("dim"), at = 0;
    for (int i = 0; i < g.x_count(); ++i) {
      Ints limits = ToInts(g.x_type(i).dims), starts(limits.size(), 0);
      starts[dim] = at;
      at = limits[dim] += at;
      if (!g.needs(i)) continue;
      ValueId part = Slice(g.graph(), g.dy(0), starts, limits);
      g.Add(i, Convert(g.graph(), part, g.gradient_dtype(i)));
    }
    return absl::OkStatus();
  }

  FactorRule Factors(const OpCall& call) const override {
    Type y = ResultOf(call);
    int dim = static_cast<int>(call.attributes.Int("dim"));
    FactorRule rule = PointwiseRule({}, y);
    rule.factors[dim].kind = FactorKind::kWhole;
    for (size_t i = 0; i < call.operands.size(); ++i) {
      ValueFactors operand = rule.results[0];
      operand[dim] = {static_cast<int>(rule.factors.size())};
      rule.factors.push_back(
          {absl::StrCat("x", i), call.operands[i].dims[dim], FactorKind::kWhole});
      rule.operands.push_back(std::move(operand));
    }
    return rule;
  }
};

class BroadcastDefinition final : public ShapeOp {
 public:
  absl::string_view name() const override { return "broadcast"; }

  // broadcast_c1: one operand. broadcast_c2: dims (ints), none below 0.
  // broadcast_c3: right-aligned, each dim of the operand has that extent or 1.
  // broadcast_c4: no other attributes.
  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(CheckAttributes(call, "broadcast_c4", {"dims"}));
    RETURN_IF_ERROR(NeedOneOperand(call, "broadcast_c1"));
    if (!call.attributes.HasType<Ints>("dims")) {
      return Refuse("broadcast_c2", "attribute dims is missing");
    }
    const Ints& dims = call.attributes.IntList("dims");
    for (int64_t extent : dims) {
      if (extent < 0) return Refuse("broadcast_c2", absl::StrCat("extent ", extent));
    }
    const Type& x = call.operands[0];
    Type result{x.dtype, Dims(dims.begin(), dims.end())};
    bool fits = x.rank() <= result.rank();
    for (int d = 0; fits && d < x.rank(); ++d) {
      fits = x.dims[d] == 1 || x.dims[d] == result.dims[d + result.rank() - x.rank()];
    }
    if (!fits) {
      return Refuse("broadcast_c3", absl::StrCat(ToString(x), " does not broadcast to ",
                                                 DimsToString(result.dims)));
    }
    return Types{result};
  }

  absl::Status Gradient(GradientBuilder& g) const override {
    g.Add(0, SumTo(g.graph(), g.dy(0), g.x_type(0).dims, g.gradient_dtype(0)));
    return absl::OkStatus();
  }

  FactorRule Factors(const OpCall& call) const override {
    return PointwiseRule(call.operands, ResultOf(call));
  }

  absl::StatusOr<Attributes> Localize(const OpCall& call,
                                      absl::Span<const FactorPart> parts) const override {
    Attributes local = call.attributes;
    Ints dims;
    for (const FactorPart& part : parts) dims.push_back(part.extent);
    local.Set("dims", dims);
    return local;
  }
};

template <class Definition>
const Op& Singleton() {
  static const Definition* const op = new Definition();
  return *op;
}

}  // namespace

const Op& ReshapeOp() { return Singleton<ReshapeDefinition>(); }
const Op& TransposeOp() { return Singleton<TransposeDefinition>(); }
const Op& SliceOp() { return Singleton<SliceDefinition>(); }
const Op& PadOp() { return Singleton<PadDefinition>(); }
const Op& ConcatOp() { return Singleton<ConcatDefinition>(); }
const Op& BroadcastOp() { return Singleton<BroadcastDefinition>(); }

ValueId Reshape(GraphBuilder& b, ValueId x, absl::string_view spec, const Dims& dims) {
  if (x == kNoValue || b.type(x).dims == dims) return x;
  return b.Apply1(ReshapeOp(), {x}, {{"spec", spec}, {"dims", ToInts(dims)}});
}

ValueId Transpose(GraphBuilder& b, ValueId x, Ints perm) {
  return b.Apply1(TransposeOp(), {x}, {{"perm", std::move(perm)}});
}

ValueId Slice(GraphBuilder& b, ValueId x, Ints starts, Ints limits) {
  return b.Apply1(SliceOp(), {x}, {{"starts", std::move(starts)}, {"limits", std::move(limits)}});
}

ValueId Pad(GraphBuilder& b, ValueId x, Ints low, Ints high, double value) {
  return b.Apply1(PadOp(), {x},
                  {{"low", std::move(low)}, {"high", std::move(high)}, {"value", value}});
}

ValueId Concat(GraphBuilder& b, absl::Span<const ValueId> values, int dim) {
  return b.Apply1(ConcatOp(), ValueIds(values.begin(), values.end()), {{"dim", dim}});
}

ValueId Broadcast(GraphBuilder& b, ValueId x, const Dims& dims) {
  if (x == kNoValue || b.type(x).dims == dims) return x;
  return b.Apply1(BroadcastOp(), {x}, {{"dims", ToInts(dims)}});
}

}  // namespace colossus
