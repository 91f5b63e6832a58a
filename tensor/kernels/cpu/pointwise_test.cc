// Pointwise, reductions, shapes and softmax against the reference; elementary functions against
// double.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "gtest/gtest.h"
#include "tensor/graph/attributes.h"
#include "tensor/graph/types.h"
#include "tensor/kernels/cpu/kernel_case.h"
#include "tensor/kernels/cpu/pointwise_loops.h"
#include "tensor/ops/pointwise.h"

namespace colossus {
namespace {

const DType kSmallFloats[] = {DType::kF32, DType::kBF16, DType::kF16};

bool In(absl::string_view name, std::initializer_list<absl::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The element types of a pointwise op's operands; fewer operands than the op takes never pass.
std::vector<DType> OperandTypes(absl::string_view op, DType dtype) {
  if (In(op, {"logical_and", "logical_or"})) return {DType::kBool, DType::kBool};
  if (op == "logical_not") return {DType::kBool};
  if (op == "select") return {DType::kBool, dtype, dtype};
  const bool two = In(op, {"add", "sub", "mul", "div", "maximum", "minimum", "equal", "less",
                           "less_equal", "greater", "greater_equal"}) ||
                   (op.size() > 5 && op.substr(op.size() - 5) == "_grad");
  return two ? std::vector<DType>{dtype, dtype} : std::vector<DType>{dtype};
}

KernelCase Pointwise(absl::string_view op, DType dtype, const std::vector<Dims>& dims) {
  KernelCase c{.op = std::string(op), .roundings = 64};
  if (op == "scale") c.attributes.Set("factor", 0.37);
  if (op == "add_scalar") c.attributes.Set("value", -1.25);
  std::vector<DType> dtypes = OperandTypes(op, dtype);
  for (size_t i = 0; i < dtypes.size(); ++i) {
    c.operands.push_back({dtypes[i], dims[std::min(i, dims.size() - 1)]});
  }
  return c;
}

TEST(PointwiseTest, EveryOpAgrees) {
  for (const Op* op : PointwiseOps()) {
    for (DType dtype : kSmallFloats) {
      for (int64_t n : {0, 1, 1029}) Check(Pointwise(op->name(), dtype, {{n}}));
    }
  }
}

TEST(PointwiseTest, BroadcastsAgree) {
  const std::vector<Dims> shapes[] = {
      {{3, 4, 5}, {5}},       {{3, 4, 5}, {4, 1}},    {{3, 4, 5}, {}},
      {{4, 1}, {3, 1, 600}},  {{2, 1, 3, 1}, {7, 1, 11}}, {{1}, {1, 1}},
      {{6, 700}, {6, 1}},     {{2, 3, 4, 5}, {3, 1, 5}},
  };
  for (const std::vector<Dims>& dims : shapes) {
    for (const char* op : {"sub", "less", "select"}) {
      for (DType dtype : kSmallFloats) Check(Pointwise(op, dtype, dims));
    }
  }
}

TEST(PointwiseTest, OtherTypesGoToTheReference) {
  for (DType dtype : {DType::kF64, DType::kI32}) {
    KernelCase c = Pointwise("add", dtype, {{7}});
    c.declines = true;
    Check(c);
  }
}

struct Function {
  const char* op;
  double (*exact)(double);
  double least, most;
  double ulps;  // allowed
};

// The largest error in units of the last place, over a dense grid.
double WorstUlps(const Function& f) {
  const PointwiseRun* run = FindPointwiseRun(f.op);
  constexpr int kCount = 200000;
  std::vector<float> x(kCount), y(kCount);
  for (int i = 0; i < kCount; ++i) {
    x[i] = static_cast<float>(f.least + (f.most - f.least) * i / (kCount - 1));
  }
  run->function(x.data(), x.data(), x.data(), y.data(), kCount, 0);
  double worst = 0;
  for (int i = 0; i < kCount; ++i) {
    const double exact = f.exact(x[i]);
    const double unit =
        std::ldexp(1.0, std::max(-149, std::ilogb(std::max(std::abs(exact), 0x1p-126)) - 23));
    const double error = std::abs(y[i] - exact) / unit;
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

TEST(FunctionTest, AFewUnitsInTheLastPlace) {
  const Function functions[] = {
      {"exp", std::exp, -87, 88.7, 2},
      {"exp", std::exp, -0.5, 0.5, 2},
      {"exp", std::exp, -104, -87, 1},
      {"log", std::log, 1e-3, 4, 2},
      {"log", std::log, 1e-38, 1e38, 2},
      {"log", std::log, 0.99, 1.01, 2},
      {"tanh", std::tanh, -10, 10, 3},
      {"tanh", std::tanh, -0.7, 0.7, 3},
      {"erf", std::erf, -5, 5, 3},
      {"erf", std::erf, -0.01, 0.01, 3},
      {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, -80, 80, 4},
      {"sin", std::sin, -7, 7, 1},
      {"cos", std::cos, -7, 7, 1},
      {"sin", std::sin, 1e5, 2e5, 1},
  };
  for (const Function& f : functions) {
    EXPECT_LE(WorstUlps(f), f.ulps) << f.op << " on [" << f.least << ", " << f.most << "]";
  }
}

TEST(FunctionTest, SpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const float x[] = {0, -0.0f, infinity, -infinity, nan, 1e-40f, 3e38f, -3e38f};
  for (const char* op : {"exp", "log", "tanh", "erf", "sigmoid", "relu", "sqrt"}) {
    Check({.op = op, .operands = {{DType::kF32, {8}}},
           .values = {{0, std::vector<double>(std::begin(x), std::end(x))}}});
  }
}

TEST(ReduceTest, ReferenceAgrees) {
  const std::pair<Dims, Ints> cases[] = {
      {{7}, {0}},           {{300, 33}, {0}},       {{300, 33}, {1}},   {{3, 40, 5}, {1}},
      {{2, 3, 4, 5}, {0, 1}}, {{2, 3, 4, 5}, {2, 3}}, {{40000, 3}, {0, 1}}, {{6, 1, 5}, {1}},
      {{20000, 2}, {0}},    {{2, 9000}, {1}},       {{3, 4}, {}},
  };
  for (const auto& [dims, reduced] : cases) {
    for (DType dtype : kSmallFloats) {
      for (bool keep : {false, true}) {
        const Attributes attributes{{"dims", reduced}, {"keep", keep}};
        // Sums of up to 120000 terms in blocks: the error grows with the root of a block.
        Check({.op = "reduce_sum", .attributes = attributes, .operands = {{dtype, dims}},
               .roundings = 512});
        Check({.op = "reduce_max", .attributes = attributes, .operands = {{dtype, dims}},
               .roundings = 0});
      }
    }
  }
}

TEST(SoftmaxTest, ReferenceAgrees) {
  for (DType dtype : kSmallFloats) {
    for (const Dims& dims : {Dims{5, 7}, Dims{2, 3, 130}, Dims{1, 1}}) {
      Check({.op = "softmax", .operands = {{dtype, dims}}, .scale = 3});
      Check({.op = "softmax_grad", .operands = {{dtype, dims}, {dtype, dims}}, .roundings = 128});
    }
  }
}

TEST(ShapeTest, BitsAreMoved) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF64, DType::kI32, DType::kBool}) {
    const Type x{dtype, {3, 40, 5, 34}};
    for (const Ints& perm : {Ints{0, 2, 1, 3}, Ints{3, 1, 2, 0}, Ints{1, 0, 3, 2}, Ints{0, 1, 2, 3},
                             Ints{2, 3, 0, 1}}) {
      Check({.op = "transpose", .attributes = {{"perm", perm}}, .operands = {x}});
    }
    Check({.op = "slice", .attributes = {{"starts", Ints{1, 0, 2, 3}},
                                         {"limits", Ints{3, 40, 5, 20}}}, .operands = {x}});
    Check({.op = "pad", .attributes = {{"low", Ints{0, 1, 2, 0}}, {"high", Ints{1, 0, 0, 3}},
                                       {"value", 1.0}}, .operands = {x}});
    for (int64_t dim : {0, 1, 3}) {
      Type other = x;
      other.dims[dim] = 2;
      Check({.op = "concat", .attributes = {{"dim", dim}}, .operands = {x, other, x}});
    }
    Check({.op = "broadcast", .attributes = {{"dims", Ints{2, 3, 4, 34}}},
           .operands = {{dtype, {3, 1, 34}}}});
    Check({.op = "broadcast", .attributes = {{"dims", Ints{2, 3, 4, 34}}},
           .operands = {{dtype, {4, 1}}}});
    Check({.op = "unstack", .attributes = {{"dim", 2}}, .operands = {x}});
    Check({.op = "stack", .attributes = {{"dim", 1}}, .operands = {x, x, x}});
    Check({.op = "reshape", .attributes = {{"spec", "a b c d -> a b (c d)"},
                                           {"dims", Ints{3, 40, 170}}}, .operands = {x}});
  }
}

TEST(ConstantTest, ReferenceAgrees) {
  for (DType dtype : kAllDTypes) {
    Attributes splat{{"dtype", Name(dtype)}, {"dims", Ints{3, 50}}}, list = splat;
    list.Set("dims", Ints{3});
    if (IsFloat(dtype)) splat.Set("floats", Floats{1.5}), list.Set("floats", Floats{1, 2, -0.5});
    else splat.Set("ints", Ints{1}), list.Set("ints", Ints{1, 0, 1});
    Check({.op = "constant", .attributes = splat});
    Check({.op = "constant", .attributes = list});
  }
}

TEST(ConvertTest, ReferenceAgrees) {
  for (DType from : kSmallFloats) {
    for (DType to : kSmallFloats) {
      if (from == to) continue;
      Check({.op = "convert", .attributes = {{"dtype", Name(to)}},
             .operands = {{from, {3, 333}}}, .roundings = 0});
    }
  }
}

}  // namespace
}  // namespace colossus
