#include "tensor/ops/reduce.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/ops/constant.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/gradient_builder.h"
#include "tensor/ops/pointwise.h"
#include "tensor/ops/shape.h"

namespace colossus {
namespace {

// Dims of the result, with extent 1 for the reduced dims if `keep`.
Dims ReducedDims(const Dims& dims, const Ints& reduced, bool keep) {
  Dims result;
  size_t next = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    bool gone = next < reduced.size() && reduced[next] == static_cast<int64_t>(d);
    if (gone) ++next;
    if (!gone)
      result.push_back(dims[d]);
    else if (keep)
      result.push_back(1);
  }
  return result;
}

// Brings a result of the reduction back to extent 1 where dims were dropped.
ValueId WithKeptDims(GraphBuilder& b, ValueId y, const Dims& dims, const Attributes& attributes) {
  if (attributes.Bool("keep")) return y;
  std::vector<std::string> from, to;
  const Ints& reduced = attributes.IntList("dims");
  for (size_t d = 0, next = 0; d < dims.size(); ++d) {
    if (next < reduced.size() && reduced[next] == static_cast<int64_t>(d)) {
      ++next;
      to.push_back("1");
    } else {
      from.push_back(absl::StrCat("d", d));
      to.push_back(from.back());
    }
  }
  return Reshape(b, y, absl::StrCat(absl::StrJoin(from, " "), " -> ", absl::StrJoin(to, " ")),
                 ReducedDims(dims, reduced, true));
}

class ReduceDefinition : public Op {
 public:
  // reduce_c1: one operand of a float type, i32 or i64.
  // reduce_c2: dims (ints) ascend strictly and are dims of the operand.
  // reduce_c3: keep (bool) is there.
  // reduce_c4: dtype, if given, is that of a float for a float operand, else i32 or i64.
  //            (reduce_sum only)
  // reduce_c5: no other attributes.
  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    RETURN_IF_ERROR(
        CheckAttributes(call, "reduce_c5", {"dims", "keep", is_sum_ ? "dtype" : "keep"}));
    if (call.operands.size() != 1 || !IsNumber(call.operands[0].dtype)) {
      return absl::InvalidArgumentError(
          absl::StrCat("reduce_c1: ", name(), " needs one operand, float, i32 or i64"));
    }
    const Type& x = call.operands[0];
    if (!call.attributes.HasType<Ints>("dims")) {
      return absl::InvalidArgumentError("reduce_c2: attribute dims is missing");
    }
    int64_t previous = -1;
    for (int64_t d : call.attributes.IntList("dims")) {
      if (d <= previous || d >= x.rank()) {
        return absl::InvalidArgumentError(
            absl::StrCat("reduce_c2: dims [", absl::StrJoin(call.attributes.IntList("dims"), ", "),
                         "] must ascend and be dims of ", ToString(x)));
      }
      previous = d;
    }
    if (!call.attributes.HasType<bool>("keep")) {
      return absl::InvalidArgumentError("reduce_c3: attribute keep is missing");
    }
    ASSIGN_OR_RETURN(DType dtype, ResultDType(call));
    return Types{{dtype, ReducedDims(x.dims, call.attributes.IntList("dims"),
                                     call.attributes.Bool("keep"))}};
  }

  FactorRule Factors(const OpCall& call) const override {
    const Type& x = call.operands[0];
    const Ints& reduced = call.attributes.IntList("dims");
    FactorRule rule;
    ValueFactors operand, result;
    for (int d = 0, next = 0; d < x.rank(); ++d) {
      bool gone = next < static_cast<int>(reduced.size()) && reduced[next] == d;
      if (gone) ++next;
      FactorKind kind = !gone     ? FactorKind::kParallel
                        : is_sum_ ? FactorKind::kSum
                                  : FactorKind::kWhole;
      rule.factors.push_back({absl::StrCat("d", d), x.dims[d], kind});
      operand.push_back({d});
      if (!gone)
        result.push_back({d});
      else if (call.attributes.Bool("keep"))
        result.push_back({});
    }
    rule.operands = {operand};
    rule.results = {result};
    return rule;
  }

  Cost CostOf(const OpCall& call) const override {
    return {static_cast<double>(call.operands[0].elements()), BytesOf(call)};
  }

 protected:
  explicit ReduceDefinition(bool is_sum) : is_sum_(is_sum) {}

 private:
  static bool IsInteger(DType dtype) { return dtype == DType::kI32 || dtype == DType::kI64; }
  static bool IsNumber(DType dtype) { return IsFloat(dtype) || IsInteger(dtype); }

  absl::StatusOr<DType> ResultDType(const OpCall& call) const {
    DType own = call.operands[0].dtype;
    if (!call.attributes.Has("dtype")) return own;
    if (!call.attributes.HasType<std::string>("dtype")) {
      return absl::InvalidArgumentError("reduce_c4: dtype is not a string");
    }
    absl::StatusOr<DType> dtype = ParseDType(call.attributes.String("dtype"));
    if (!dtype.ok()) return Annotate(dtype.status(), "reduce_c4");
    if (IsFloat(own) ? IsFloat(*dtype) : IsInteger(*dtype)) return *dtype;
    return absl::InvalidArgumentError(
        absl::StrCat("reduce_c4: ", Name(own), " cannot be summed to ", Name(*dtype)));
  }

  const bool is_sum_;
};

class ReduceSumDefinition final : public ReduceDefinition {
 public:
  ReduceSumDefinition() : ReduceDefinition(true) {}
  absl::string_view name() const override { return "reduce_sum"; }

  // Every element that was added gets the cotangent of its sum.
  absl::Status Gradient(GradientBuilder& g) const override {
    const Dims& dims = g.x_type(0).dims;
    ValueId dy = Convert(g.graph(), g.dy(0), g.gradient_dtype(0));
    g.Add(0, Broadcast(g.graph(), WithKeptDims(g.graph(), dy, dims, g.attributes()), dims));
    return absl::OkStatus();
  }
};

class ReduceMaxDefinition final : public ReduceDefinition {
 public:
  ReduceMaxDefinition() : ReduceDefinition(false) {}
  absl::string_view name() const override { return "reduce_max"; }

  // The elements that attain the maximum share its cotangent equally.
  absl::Status Gradient(GradientBuilder& g) const override {
    GraphBuilder& b = g.graph();
    const Type& x = g.x_type(0);
    const Dims dims = x.dims;
    ValueId y = WithKeptDims(b, g.y(0), dims, g.attributes());
    ValueId dy = WithKeptDims(b, g.dy(0), dims, g.attributes());
    ValueId attains = Equal(b, g.x(0), y);
    ValueId count =
        ReduceSum(b, Convert(b, attains, x.dtype), g.attributes().IntList("dims"), true);
    ValueId zero = Constant(b, x.dtype, {}, {0});
    ValueId dx = Select(b, attains, Div(b, dy, count), zero);
    g.Add(0, Convert(b, dx, g.gradient_dtype(0)));
    return absl::OkStatus();
  }
};

}  // namespace

const Op& ReduceSumOp() {
  static const ReduceSumDefinition* const op = new ReduceSumDefinition();
  return *op;
}

const Op& ReduceMaxOp() {
  static const ReduceMaxDefinition* const op = new ReduceMaxDefinition();
  return *op;
}

ValueId ReduceSum(GraphBuilder& b, ValueId x, Ints dims, bool keep, std::optional<DType> dtype) {
  DType own = b.type(x).dtype;
  if (dims.empty()) return Convert(b, x, dtype.value_or(own));
  Attributes attributes{{"dims", std::move(dims)}, {"keep", keep}};
  if (dtype.has_value() && *dtype != own) attributes.Set("dtype", Name(*dtype));
  return b.Apply1(ReduceSumOp(), {x}, std::move(attributes));
}

ValueId ReduceMax(GraphBuilder& b, ValueId x, Ints dims, bool keep) {
  if (dims.empty()) return x;
  return b.Apply1(ReduceMaxOp(), {x}, {{"dims", std::move(dims)}, {"keep", keep}});
}

ValueId SumTo(GraphBuilder& b, ValueId dx, absl::Span<const int64_t> dims, DType dtype) {
  if (dx == kNoValue) return kNoValue;
  const Dims from = b.type(dx).dims;
  size_t lead = from.size() - dims.size();
  Ints reduced;
  for (size_t d = 0; d < from.size(); ++d) {
    if (d < lead || (dims[d - lead] == 1 && from[d] != 1)) {
      reduced.push_back(static_cast<int64_t>(d));
    }
  }
  bool inner = reduced.size() > lead;
  ValueId sum = ReduceSum(b, dx, reduced, inner, dtype);
  if (!inner || lead == 0) return sum;
  // Kept dims of extent 1 stand before the operand's own.
  std::vector<std::string> to;
  for (size_t d = 0; d < dims.size(); ++d) {
    to.push_back(dims[d] == 1 ? "1" : absl::StrCat("d", d));
  }
  std::string ones;
  for (size_t d = 0; d < lead; ++d) ones += "1 ";
  std::string spec = absl::StrJoin(to, " ");
  return Reshape(b, sum, absl::StrCat(ones, spec, " -> ", spec), Dims(dims.begin(), dims.end()));
}

}  // namespace colossus
