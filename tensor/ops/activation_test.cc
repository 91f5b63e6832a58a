// Values of the activation functions and of their derivatives in fp64.
#include <cmath>
#include <string>
#include <vector>

#include "base/check.h"
#include "gtest/gtest.h"
#include "tensor/graph/builder.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/reference/interpreter.h"
#include "tensor/ops/pointwise.h"

namespace colossus {
namespace {

const std::vector<double> kPoints = {-3, -0.5, 1, 3};

// One pointwise op of f64 operands.
std::vector<double> Evaluate(const std::string& op, const std::vector<std::vector<double>>& x) {
  GraphBuilder b("activation");
  ValueIds operands;
  HostTensors inputs;
  for (size_t i = 0; i < x.size(); ++i) {
    std::string name = "x" + std::to_string(i);
    Dims dims = {static_cast<int64_t>(x[i].size())};
    operands.push_back(b.Feed(name, {DType::kF64, dims}));
    inputs[name] = HostTensor::Of<double>(dims, x[i]);
  }
  b.Output("y", b.Apply1(PointwiseOp(op), operands));
  absl::StatusOr<Graph> graph = std::move(b).Build();
  CHECK_OK(graph.status());
  absl::StatusOr<HostTensors> out = Interpret(*graph, inputs);
  CHECK_OK(out.status());
  return out->at("y").ToDoubles();
}

struct Activation {
  std::string op;
  std::vector<double> values;  // at kPoints, 8 decimals
  double (*function)(double);  // the definition, for the derivative
};

double Sigma(double x) { return 1 / (1 + std::exp(-x)); }

const Activation kActivations[] = {
    {"gelu",
     {-0.00404969, -0.15426877, 0.84134475, 2.99595031},
     [](double x) { return x / 2 * std::erfc(-x / std::sqrt(2.0)); }},
    {"gelu_tanh",
     {-0.00363739, -0.15428599, 0.84119199, 2.99636261},
     [](double x) { return x * Sigma(2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)); }},
    {"quick_gelu",
     {-0.01807130, -0.14961156, 0.84579577, 2.98192869},
     [](double x) { return x * Sigma(1.702 * x); }},
    {"silu",
     {-0.14227762, -0.18877033, 0.73105858, 2.85772238},
     [](double x) { return x * Sigma(x); }},
    {"relu", {0, 0, 1, 3}, [](double x) { return x > 0 ? x : 0; }},
};

TEST(FieldCases, G5ActivationValuesInF64) {
  for (const Activation& a : kActivations) {
    std::vector<double> y = Evaluate(a.op, {kPoints});
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], a.values[i], 1e-7) << a.op << " " << i;
  }
}

// Against central differences of the definition: step 1e-5 leaves 1e-10 of truncation and 1e-11 of
// rounding.
TEST(FieldCases, G5ActivationDerivativesInF64) {
  const double h = 1e-5;
  for (const Activation& a : kActivations) {
    std::vector<double> dx =
        Evaluate(a.op + "_grad", {std::vector<double>(kPoints.size(), 1), kPoints});
    for (size_t i = 0; i < dx.size(); ++i) {
      double slope = (a.function(kPoints[i] + h) - a.function(kPoints[i] - h)) / (2 * h);
      EXPECT_NEAR(dx[i], slope, 1e-7) << a.op << " " << i;
    }
  }
}

}  // namespace
}  // namespace colossus
