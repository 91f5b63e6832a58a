// Optimizer updates, dropout, sums of squares: the same bits as the reference.
#include <cmath>

#include "base/dtype.h"
#include "gtest/gtest.h"
#include "tensor/kernels/cpu/kernel_case.h"

namespace colossus {
namespace {

const DType kSmallFloats[] = {DType::kF32, DType::kBF16, DType::kF16};
const Dims kShapes[] = {{1}, {7, 13}, {40000}, {0}};

void MakePositive(HostTensor& x) {
  for (int64_t i = 0; i < x.type().elements(); ++i) x.Set(i, std::abs(x.Get(i)));
}

TEST(UpdateTest, AdamwIsExact) {
  for (DType grad : kSmallFloats) {
    for (const Dims& dims : kShapes) {
      Attributes attributes{{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8},
                            {"weight_decay", Floats{0.1}}};
      const Type state{DType::kF32, dims}, scalar{DType::kF32, {}};
      KernelCase c{.op = "adamw", .attributes = attributes,
                   .operands = {state, {grad, dims}, state, state, scalar, scalar, scalar, scalar},
                   .values = {{4, {1e-2}}, {5, {0.7}}, {6, {0.19}}, {7, {0.0975}}},
                   .roundings = 0,
                   .prepare = [](std::vector<HostTensor>& x) { MakePositive(x[3]); }};
      Check(c);
      c.attributes.Set("compute", "bf16");
      Check(c);
    }
  }
}

TEST(UpdateTest, SgdIsExact) {
  for (DType grad : kSmallFloats) {
    for (const Dims& dims : kShapes) {
      const Type state{DType::kF32, dims}, scalar{DType::kF32, {}};
      Check({.op = "sgd",
             .attributes = {{"momentum", 0.9}, {"weight_decay", Floats{0.01}},
                            {"compute", "bf16"}},
             .operands = {state, {grad, dims}, state, scalar, scalar},
             .values = {{3, {0.1}}, {4, {0.5}}}, .roundings = 0});
    }
  }
}

TEST(UpdateTest, DropoutKeepsTheSameElements) {
  for (DType dtype : kSmallFloats) {
    for (double rate : {0.0, 0.1, 0.5}) {
      const Types operands = {{dtype, {6, 5, 31}}, {DType::kI64, {2}}, {DType::kI64, {}}};
      Check({.op = "dropout", .attributes = {{"rate", rate}, {"site", "h.0"}},
             .operands = operands, .bounds = {{1, 1000}}, .values = {{2, {17}}}, .roundings = 2});
      Check({.op = "dropout",
             .attributes = {{"rate", rate}, {"site", "h.0"}, {"origin", Ints{2, 3, 31}},
                            {"global", Ints{12, 10, 62}}},
             .operands = operands, .bounds = {{1, 1000}}, .values = {{2, {24}}}, .roundings = 2});
    }
    Check({.op = "dropout", .attributes = {{"rate", 0.25}, {"site", "x"}},
           .operands = {{dtype, {70001}}, {DType::kI64, {2}}, {DType::kI64, {}}},
           .values = {{2, {0}}}, .roundings = 2});
  }
}

TEST(UpdateTest, SumSquaresIsExact) {
  Check({.op = "sum_squares",
         .operands = {{DType::kF32, {3000}}, {DType::kBF16, {0}}, {DType::kF16, {5, 7}},
                      {DType::kBF16, {100, 300}}},
         .roundings = 0});
  Check({.op = "sum_squares", .attributes = {{"continues", true}},
         .operands = {{DType::kF64, {}}, {DType::kF32, {3000}}, {DType::kBF16, {5, 7}}},
         .values = {{0, {1e-3}}}, .roundings = 0});
}

}  // namespace
}  // namespace colossus
