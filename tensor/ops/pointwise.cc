#include "tensor/ops/pointwise.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/ops/constant.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/gradient_builder.h"
#include "tensor/ops/reduce.h"

namespace colossus {
namespace {

// What the operands may be and what the result is.
enum class Signature {
  kFloat,    // floats of one dtype; the result likewise
  kNumber,   // the same, or i32 or i64
  kCompare,  // any one dtype; bool
  kLogical,  // bool; bool
  kSelect,   // bool, then two of any one dtype; that dtype
};

using GradientRule = void (*)(GradientBuilder& g);

struct Row {
  absl::string_view name;
  int arity;
  Signature signature;
  double flops;                      // per element of the result
  GradientRule gradient;             // nullptr: the op has none
  absl::string_view attribute = "";  // of type float; "" none
};

// Adds `dx`, which has the dims and dtype of the result, as cotangent of operand i.
void AddReduced(GradientBuilder& g, int i, ValueId dx) {
  g.Add(i, SumTo(g.graph(), dx, g.x_type(i).dims, g.gradient_dtype(i)));
}

// A scalar that broadcasts, in the dtype of operand 0.
ValueId Scalar(GradientBuilder& g, double value) {
  return Constant(g.graph(), g.y_type(0).dtype, {}, {value});
}

// The gradients, each called with the cotangent dy(0) in the result's dtype.

void AddGradient(GradientBuilder& g) {
  for (int i : {0, 1}) {
    if (g.needs(i)) AddReduced(g, i, g.dy(0));
  }
}

void SubGradient(GradientBuilder& g) {
  if (g.needs(0)) AddReduced(g, 0, g.dy(0));
  if (g.needs(1)) AddReduced(g, 1, Neg(g.graph(), g.dy(0)));
}

void MulGradient(GradientBuilder& g) {
  for (int i : {0, 1}) {
    if (g.needs(i)) AddReduced(g, i, Mul(g.graph(), g.dy(0), g.x(1 - i)));
  }
}

void DivGradient(GradientBuilder& g) {
  GraphBuilder& b = g.graph();
  ValueId dx = Div(b, g.dy(0), g.x(1));
  if (g.needs(0)) AddReduced(g, 0, dx);
  if (g.needs(1)) AddReduced(g, 1, Neg(b, Mul(b, dx, g.y(0))));
}

// The cotangent goes to operand 0 where `first` holds, else to operand 1.
void RouteGradient(GradientBuilder& g, ValueId first) {
  ValueId zero = Scalar(g, 0);
  int a = g.x_count() - 2;  // select has its condition before the two
  if (g.needs(a)) AddReduced(g, a, Select(g.graph(), first, g.dy(0), zero));
  if (g.needs(a + 1)) AddReduced(g, a + 1, Select(g.graph(), first, zero, g.dy(0)));
}

void MaximumGradient(GradientBuilder& g) {
  RouteGradient(g, GreaterEqual(g.graph(), g.x(0), g.x(1)));
}

void MinimumGradient(GradientBuilder& g) { RouteGradient(g, LessEqual(g.graph(), g.x(0), g.x(1))); }

void SelectGradient(GradientBuilder& g) { RouteGradient(g, g.x(0)); }

// Functions of one operand give dx in its dtype.
void AddOne(GradientBuilder& g, ValueId dx) {
  g.Add(0, Convert(g.graph(), dx, g.gradient_dtype(0)));
}

void NegGradient(GradientBuilder& g) { AddOne(g, Neg(g.graph(), g.dy(0))); }

void ExpGradient(GradientBuilder& g) { AddOne(g, Mul(g.graph(), g.dy(0), g.y(0))); }

void LogGradient(GradientBuilder& g) { AddOne(g, Div(g.graph(), g.dy(0), g.x(0))); }

void SqrtGradient(GradientBuilder& g) {
  AddOne(g, Div(g.graph(), Scale(g.graph(), g.dy(0), 0.5), g.y(0)));
}

void RsqrtGradient(GradientBuilder& g) {
  GraphBuilder& b = g.graph();
  ValueId cube = Mul(b, Square(b, g.y(0)), g.y(0));
  AddOne(g, Mul(b, Scale(b, g.dy(0), -0.5), cube));
}

void SquareGradient(GradientBuilder& g) {
  AddOne(g, Mul(g.graph(), Scale(g.graph(), g.dy(0), 2), g.x(0)));
}

void AbsGradient(GradientBuilder& g) {
  GraphBuilder& b = g.graph();
  ValueId zero = Scalar(g, 0);
  DType dtype = g.x_type(0).dtype;
  ValueId sign =
      Sub(b, Convert(b, Greater(b, g.x(0), zero), dtype), Convert(b, Less(b, g.x(0), zero), dtype));
  AddOne(g, Mul(b, g.dy(0), sign));
}

void SinGradient(GradientBuilder& g) { AddOne(g, Mul(g.graph(), g.dy(0), Cos(g.graph(), g.x(0)))); }

void CosGradient(GradientBuilder& g) {
  AddOne(g, Neg(g.graph(), Mul(g.graph(), g.dy(0), Sin(g.graph(), g.x(0)))));
}

void ErfGradient(GradientBuilder& g) {
  GraphBuilder& b = g.graph();
  ValueId bell = Exp(b, Neg(b, Square(b, g.x(0))));
  AddOne(g, Mul(b, Scale(b, g.dy(0), 2 / std::sqrt(M_PI)), bell));
}

void ScaleGradient(GradientBuilder& g) {
  AddOne(g, Scale(g.graph(), g.dy(0), g.attributes().Float("factor")));
}

void IdentityGradient(GradientBuilder& g) { AddOne(g, g.dy(0)); }

// Through the op `name`(dy, x).
void AddFromOperand(GradientBuilder& g, absl::string_view name) {
  AddOne(g, g.graph().Apply1(PointwiseOp(name), {g.dy(0), g.x(0)}));
}

// Through the op `name`(dy, y).
void AddFromResult(GradientBuilder& g, absl::string_view name) {
  AddOne(g, g.graph().Apply1(PointwiseOp(name), {g.dy(0), g.y(0)}));
}

// Nothing flows back through a comparison.
void NoGradient(GradientBuilder&) {}

// Flops as the reference computes, so that a transcendental function counts one.
constexpr Row kTable[] = {
    {"add", 2, Signature::kNumber, 1, AddGradient},
    {"sub", 2, Signature::kNumber, 1, SubGradient},
    {"mul", 2, Signature::kNumber, 1, MulGradient},
    {"div", 2, Signature::kFloat, 1, DivGradient},
    {"maximum", 2, Signature::kNumber, 1, MaximumGradient},
    {"minimum", 2, Signature::kNumber, 1, MinimumGradient},
    {"neg", 1, Signature::kNumber, 0, NegGradient},
    {"exp", 1, Signature::kFloat, 1, ExpGradient},
    {"log", 1, Signature::kFloat, 1, LogGradient},
    {"sqrt", 1, Signature::kFloat, 1, SqrtGradient},
    {"rsqrt", 1, Signature::kFloat, 2, RsqrtGradient},
    {"square", 1, Signature::kFloat, 1, SquareGradient},
    {"abs", 1, Signature::kFloat, 1, AbsGradient},
    {"sin", 1, Signature::kFloat, 1, SinGradient},
    {"cos", 1, Signature::kFloat, 1, CosGradient},
    {"erf", 1, Signature::kFloat, 1, ErfGradient},
    {"tanh", 1, Signature::kFloat, 1, [](GradientBuilder& g) { AddFromResult(g, "tanh_grad"); }},
    {"sigmoid", 1, Signature::kFloat, 3,
     [](GradientBuilder& g) { AddFromResult(g, "sigmoid_grad"); }},
    {"relu", 1, Signature::kFloat, 1, [](GradientBuilder& g) { AddFromOperand(g, "relu_grad"); }},
    {"gelu", 1, Signature::kFloat, 5, [](GradientBuilder& g) { AddFromOperand(g, "gelu_grad"); }},
    {"gelu_tanh", 1, Signature::kFloat, 9,
     [](GradientBuilder& g) { AddFromOperand(g, "gelu_tanh_grad"); }},
    {"quick_gelu", 1, Signature::kFloat, 5,
     [](GradientBuilder& g) { AddFromOperand(g, "quick_gelu_grad"); }},
    {"silu", 1, Signature::kFloat, 4, [](GradientBuilder& g) { AddFromOperand(g, "silu_grad"); }},
    {"scale", 1, Signature::kFloat, 1, ScaleGradient, "factor"},
    {"add_scalar", 1, Signature::kFloat, 1, IdentityGradient, "value"},
    {"equal", 2, Signature::kCompare, 0, NoGradient},
    {"less", 2, Signature::kCompare, 0, NoGradient},
    {"less_equal", 2, Signature::kCompare, 0, NoGradient},
    {"greater", 2, Signature::kCompare, 0, NoGradient},
    {"greater_equal", 2, Signature::kCompare, 0, NoGradient},
    {"logical_and", 2, Signature::kLogical, 0, NoGradient},
    {"logical_or", 2, Signature::kLogical, 0, NoGradient},
    {"logical_not", 1, Signature::kLogical, 0, NoGradient},
    {"select", 3, Signature::kSelect, 0, SelectGradient},
    {"relu_grad", 2, Signature::kFloat, 0, nullptr},
    {"gelu_grad", 2, Signature::kFloat, 11, nullptr},
    {"gelu_tanh_grad", 2, Signature::kFloat, 18, nullptr},
    {"quick_gelu_grad", 2, Signature::kFloat, 10, nullptr},
    {"silu_grad", 2, Signature::kFloat, 8, nullptr},
    {"tanh_grad", 2, Signature::kFloat, 3, nullptr},
    {"sigmoid_grad", 2, Signature::kFloat, 3, nullptr},
};

// pointwise_c1: as many operands as the table's row says.
// pointwise_c2: dtypes as the row says; operands that are not conditions share one.
// pointwise_c3: dims broadcast: right-aligned extents are equal or 1.
// pointwise_c4: scale has `factor`, add_scalar has `value`, of type float; no other attributes.
absl::Status CheckDTypes(const Row& row, absl::Span<const Type> operands) {
  size_t first = row.signature == Signature::kSelect ? 1 : 0;
  DType dtype = operands[first].dtype;
  bool integer = dtype == DType::kI32 || dtype == DType::kI64;
  bool fits = false;
  switch (row.signature) {
    case Signature::kFloat:
      fits = IsFloat(dtype);
      break;
    case Signature::kNumber:
      fits = IsFloat(dtype) || integer;
      break;
    case Signature::kLogical:
      fits = dtype == DType::kBool;
      break;
    case Signature::kCompare:
      fits = true;
      break;
    case Signature::kSelect:
      fits = operands[0].dtype == DType::kBool;
      break;
  }
  for (const Type& type : operands.subspan(first)) fits = fits && type.dtype == dtype;
  if (fits) return absl::OkStatus();
  std::string given;
  for (const Type& type : operands) absl::StrAppend(&given, " ", ToString(type));
  return absl::InvalidArgumentError(
      absl::StrCat("pointwise_c2: ", row.name, " cannot take element types of", given));
}

class PointwiseDefinition final : public Op {
 public:
  explicit PointwiseDefinition(const Row& row) : row_(row) {}
  absl::string_view name() const override { return row_.name; }

  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    if (static_cast<int>(call.operands.size()) != row_.arity) {
      return absl::InvalidArgumentError(absl::StrCat("pointwise_c1: ", row_.name, " needs ",
                                                     row_.arity, " operands, given ",
                                                     call.operands.size()));
    }
    RETURN_IF_ERROR(CheckDTypes(row_, call.operands));
    ASSIGN_OR_RETURN(Dims dims, BroadcastDims(call.operands));
    if (row_.attribute.empty()) {
      RETURN_IF_ERROR(CheckAttributes(call, "pointwise_c4", {}));
    } else {
      RETURN_IF_ERROR(CheckAttributes(call, "pointwise_c4", {row_.attribute}));
      if (!call.attributes.HasType<double>(row_.attribute)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "pointwise_c4: ", row_.name, " needs attribute '", row_.attribute, "' of type float"));
      }
    }
    bool is_bool = row_.signature == Signature::kCompare || row_.signature == Signature::kLogical;
    return Types{{is_bool ? DType::kBool : call.operands.back().dtype, dims}};
  }

  absl::Status Gradient(GradientBuilder& g) const override {
    if (row_.gradient == nullptr) return Op::Gradient(g);
    row_.gradient(g);
    return absl::OkStatus();
  }

  FactorRule Factors(const OpCall& call) const override {
    return PointwiseRule(call.operands, ResultOf(call));
  }

  Cost CostOf(const OpCall& call) const override {
    return {row_.flops * static_cast<double>(ResultOf(call).elements()), BytesOf(call)};
  }

  // Element i is written after element i of every operand was read.
  Aliases MayAlias(const OpCall& call) const override {
    Aliases aliases;
    Type result = ResultOf(call);
    for (size_t i = 0; i < call.operands.size(); ++i) {
      if (call.operands[i] == result) aliases.push_back({0, static_cast<int>(i)});
    }
    return aliases;
  }

 private:
  Type ResultOf(const OpCall& call) const {
    absl::StatusOr<Types> types = Infer(call);
    CHECK_OK(types.status());
    return (*types)[0];
  }

  const Row row_;
};

ValueId Unary(GraphBuilder& b, absl::string_view name, ValueId x) {
  return b.Apply1(PointwiseOp(name), {x});
}

ValueId Binary(GraphBuilder& b, absl::string_view name, ValueId x, ValueId y) {
  return b.Apply1(PointwiseOp(name), {x, y});
}

}  // namespace

absl::Span<const Op* const> PointwiseOps() {
  static const std::vector<const Op*>* const ops = [] {
    auto* list = new std::vector<const Op*>();
    for (const Row& row : kTable) list->push_back(new PointwiseDefinition(row));
    return list;
  }();
  return *ops;
}

const Op& PointwiseOp(absl::string_view name) {
  for (const Op* op : PointwiseOps()) {
    if (op->name() == name) return *op;
  }
  CHECK(false) << "no pointwise op '" << name << "'";
  return *PointwiseOps()[0];
}

bool IsPointwise(const Op& op) {
  absl::Span<const Op* const> ops = PointwiseOps();
  return std::find(ops.begin(), ops.end(), &op) != ops.end();
}

absl::StatusOr<Dims> BroadcastDims(absl::Span<const Type> operands) {
  int rank = 0;
  for (const Type& type : operands) rank = std::max(rank, type.rank());
  Dims dims(rank, 1);
  for (const Type& type : operands) {
    for (int d = 0; d < type.rank(); ++d) {
      int64_t& extent = dims[d + rank - type.rank()];
      if (extent == 1) extent = type.dims[d];
      if (type.dims[d] == 1 || type.dims[d] == extent) continue;
      std::string given;
      for (const Type& t : operands) absl::StrAppend(&given, " ", DimsToString(t.dims));
      return absl::InvalidArgumentError(
          absl::StrCat("pointwise_c3: dims do not broadcast:", given));
    }
  }
  return dims;
}

ValueId Add(GraphBuilder& b, ValueId x, ValueId y) { return Binary(b, "add", x, y); }
ValueId Sub(GraphBuilder& b, ValueId x, ValueId y) { return Binary(b, "sub", x, y); }
ValueId Mul(GraphBuilder& b, ValueId x, ValueId y) { return Binary(b, "mul", x, y); }
ValueId Div(GraphBuilder& b, ValueId x, ValueId y) { return Binary(b, "div", x, y); }
ValueId Maximum(GraphBuilder& b, ValueId x, ValueId y) { return Binary(b, "maximum", x, y); }
ValueId Minimum(GraphBuilder& b, ValueId x, ValueId y) { return Binary(b, "minimum", x, y); }
ValueId Neg(GraphBuilder& b, ValueId x) { return Unary(b, "neg", x); }
ValueId Exp(GraphBuilder& b, ValueId x) { return Unary(b, "exp", x); }
ValueId Log(GraphBuilder& b, ValueId x) { return Unary(b, "log", x); }
ValueId Sqrt(GraphBuilder& b, ValueId x) { return Unary(b, "sqrt", x); }
ValueId Rsqrt(GraphBuilder& b, ValueId x) { return Unary(b, "rsqrt", x); }
ValueId Square(GraphBuilder& b, ValueId x) { return Unary(b, "square", x); }
ValueId Abs(GraphBuilder& b, ValueId x) { return Unary(b, "abs", x); }
ValueId Sin(GraphBuilder& b, ValueId x) { return Unary(b, "sin", x); }
ValueId Cos(GraphBuilder& b, ValueId x) { return Unary(b, "cos", x); }
ValueId Tanh(GraphBuilder& b, ValueId x) { return Unary(b, "tanh", x); }
ValueId Sigmoid(GraphBuilder& b, ValueId x) { return Unary(b, "sigmoid", x); }
ValueId Erf(GraphBuilder& b, ValueId x) { return Unary(b, "erf", x); }
ValueId Relu(GraphBuilder& b, ValueId x) { return Unary(b, "relu", x); }
ValueId Gelu(GraphBuilder& b, ValueId x) { return Unary(b, "gelu", x); }
ValueId GeluTanh(GraphBuilder& b, ValueId x) { return Unary(b, "gelu_tanh", x); }
ValueId QuickGelu(GraphBuilder& b, ValueId x) { return Unary(b, "quick_gelu", x); }
ValueId Silu(GraphBuilder& b, ValueId x) { return Unary(b, "silu", x); }
ValueId Equal(GraphBuilder& b, ValueId x, ValueId y) { return Binary(b, "equal", x, y); }
ValueId Less(GraphBuilder& b, ValueId x, ValueId y) { return Binary(b, "less", x, y); }
ValueId LessEqual(GraphBuilder& b, ValueId x, ValueId y) { return Binary(b, "less_equal", x, y); }
ValueId Greater(GraphBuilder& b, ValueId x, ValueId y) { return Binary(b, "greater", x, y); }
ValueId GreaterEqual(GraphBuilder& b, ValueId x, ValueId y) {
  return Binary(b, "greater_equal", x, y);
}
ValueId LogicalAnd(GraphBuilder& b, ValueId x, ValueId y) { return Binary(b, "logical_and", x, y); }
ValueId LogicalOr(GraphBuilder& b, ValueId x, ValueId y) { return Binary(b, "logical_or", x, y); }
ValueId LogicalNot(GraphBuilder& b, ValueId x) { return Unary(b, "logical_not", x); }

ValueId Scale(GraphBuilder& b, ValueId x, double factor) {
  return b.Apply1(PointwiseOp("scale"), {x}, {{"factor", factor}});
}

ValueId AddScalar(GraphBuilder& b, ValueId x, double value) {
  return b.Apply1(PointwiseOp("add_scalar"), {x}, {{"value", value}});
}

ValueId Select(GraphBuilder& b, ValueId condition, ValueId x, ValueId y) {
  return b.Apply1(PointwiseOp("select"), {condition, x, y});
}

}  // namespace colossus
