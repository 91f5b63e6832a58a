#include "tensor/ops/constant.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace colossus {
namespace {

// The type said by `dtype` and `dims`; both ops share these constraints.
absl::StatusOr<Type> AttributeType(const OpCall& call, absl::string_view op) {
  if (!call.operands.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(op, "_c1: takes no operands"));
  }
  if (!call.attributes.HasType<std::string>("dtype")) {
    return absl::InvalidArgumentError(absl::StrCat(op, "_c2: attribute dtype is missing"));
  }
  absl::StatusOr<DType> dtype = ParseDType(call.attributes.String("dtype"));
  if (!dtype.ok()) return Annotate(dtype.status(), absl::StrCat(op, "_c2"));
  if (!call.attributes.HasType<Ints>("dims")) {
    return absl::InvalidArgumentError(absl::StrCat(op, "_c3: attribute dims is missing"));
  }
  Type type{*dtype, {}};
  for (int64_t extent : call.attributes.IntList("dims")) {
    if (extent < 0) {
      return absl::InvalidArgumentError(absl::StrCat(op, "_c3: extent ", extent, " is negative"));
    }
    type.dims.push_back(extent);
  }
  return type;
}

// `dims` with the extents of the part.
Ints PartDims(absl::Span<const FactorPart> parts) {
  Ints dims;
  for (const FactorPart& part : parts) dims.push_back(part.extent);
  return dims;
}

class ConstantDefinition final : public Op {
 public:
  absl::string_view name() const override { return "constant"; }

  // constant_c1: no operands.
  // constant_c2: dtype names an element type.
  // constant_c3: dims (ints) are at least 0.
  // constant_c4: floats (for a float dtype) or ints (for any other): one value, or one per element.
  // constant_c5: no other attributes.
  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    ASSIGN_OR_RETURN(Type type, AttributeType(call, name()));
    const char* list = IsFloat(type.dtype) ? "floats" : "ints";
    RETURN_IF_ERROR(CheckAttributes(call, "constant_c5", {"dtype", "dims", list}));
    int64_t count = -1;
    if (IsFloat(type.dtype) && call.attributes.HasType<Floats>("floats")) {
      count = static_cast<int64_t>(call.attributes.FloatList("floats").size());
    } else if (!IsFloat(type.dtype) && call.attributes.HasType<Ints>("ints")) {
      count = static_cast<int64_t>(call.attributes.IntList("ints").size());
    }
    if (count != 1 && (count < 0 || count != type.elements())) {
      return absl::InvalidArgumentError(absl::StrCat("constant_c4: ", ToString(type), " needs ",
                                                     list, " of 1 or ", type.elements(),
                                                     " values"));
    }
    return Types{type};
  }

  // There is nothing to differentiate by.
  absl::Status Gradient(GradientBuilder&) const override { return absl::OkStatus(); }

  FactorRule Factors(const OpCall& call) const override {
    absl::StatusOr<Types> types = Infer(call);
    CHECK_OK(types.status());
    bool splat = (call.attributes.Has("floats") ? call.attributes.FloatList("floats").size()
                                                : call.attributes.IntList("ints").size()) == 1;
    return splat ? PointwiseRule({}, (*types)[0]) : WholeRule({}, *types);
  }

  absl::StatusOr<Attributes> Localize(const OpCall& call,
                                      absl::Span<const FactorPart> parts) const override {
    Attributes local = call.attributes;
    local.Set("dims", PartDims(parts));
    return local;
  }

  Cost CostOf(const OpCall& call) const override { return {0, BytesOf(call)}; }
};

class IotaDefinition final : public Op {
 public:
  absl::string_view name() const override { return "iota"; }

  // iota_c1: no operands.
  // iota_c2: dtype names a float type, i32 or i64.
  // iota_c3: dims (ints) are at least 0.
  // iota_c4: dim (int) is one of them.
  // iota_c5: start, if given, is an int.
  // iota_c6: no other attributes.
  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    ASSIGN_OR_RETURN(Type type, AttributeType(call, name()));
    RETURN_IF_ERROR(CheckAttributes(call, "iota_c6", {"dtype", "dims", "dim", "start"}));
    if (!IsFloat(type.dtype) && type.dtype != DType::kI32 && type.dtype != DType::kI64) {
      return absl::InvalidArgumentError("iota_c2: dtype must be a float type, i32 or i64");
    }
    if (!call.attributes.HasType<int64_t>("dim") || call.attributes.Int("dim") < 0 ||
        call.attributes.Int("dim") >= type.rank()) {
      return absl::InvalidArgumentError(
          absl::StrCat("iota_c4: dim must be a dim of ", ToString(type)));
    }
    if (call.attributes.Has("start") && !call.attributes.HasType<int64_t>("start")) {
      return absl::InvalidArgumentError("iota_c5: start is not an int");
    }
    return Types{type};
  }

  absl::Status Gradient(GradientBuilder&) const override { return absl::OkStatus(); }

  FactorRule Factors(const OpCall& call) const override {
    absl::StatusOr<Types> types = Infer(call);
    CHECK_OK(types.status());
    FactorRule rule = PointwiseRule({}, (*types)[0]);
    rule.factors[call.attributes.Int("dim")].kind = FactorKind::kIndexed;
    return rule;
  }

  absl::StatusOr<Attributes> Localize(const OpCall& call,
                                      absl::Span<const FactorPart> parts) const override {
    Attributes local = call.attributes;
    local.Set("dims", PartDims(parts));
    int64_t start = call.attributes.IntOr("start", 0) + parts[call.attributes.Int("dim")].origin;
    if (start != 0) local.Set("start", start);
    return local;
  }

  Cost CostOf(const OpCall& call) const override { return {0, BytesOf(call)}; }
};

}  // namespace

const Op& ConstantOp() {
  static const ConstantDefinition* const op = new ConstantDefinition();
  return *op;
}

const Op& IotaOp() {
  static const IotaDefinition* const op = new IotaDefinition();
  return *op;
}

ValueId Constant(GraphBuilder& b, DType dtype, const Dims& dims, Floats values) {
  return b.Apply1(ConstantOp(), {},
                  {{"dtype", Name(dtype)},
                   {"dims", Ints(dims.begin(), dims.end())},
                   {"floats", std::move(values)}});
}

ValueId ConstantInts(GraphBuilder& b, DType dtype, const Dims& dims, Ints values) {
  return b.Apply1(ConstantOp(), {},
                  {{"dtype", Name(dtype)},
                   {"dims", Ints(dims.begin(), dims.end())},
                   {"ints", std::move(values)}});
}

ValueId Iota(GraphBuilder& b, DType dtype, const Dims& dims, int dim) {
  return b.Apply1(IotaOp(), {},
                  {{"dtype", Name(dtype)}, {"dims", Ints(dims.begin(), dims.end())}, {"dim", dim}});
}

}  // namespace colossus
