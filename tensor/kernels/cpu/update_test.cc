// Optimizer updates, dropout, sums of squares: the same bits as the reference.
#include <cmath>

#include "base/dtype.h"
#include "gtest/gtest.h"
#include "tensor/kernels/cpu/kernel_case.h"
#include "tensor/ops/element_segments.h"

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

// bf16 moments: random bits by the elements that segments name, in any pieces.
TEST(UpdateTest, NarrowMomentsAreExact) {
  const Type state{DType::kF32, {70, 30}}, moment{DType::kBF16, {70, 30}}, scalar{DType::kF32, {}};
  const Type key{DType::kI64, {2}}, small{DType::kF32, {5}}, small_moment{DType::kBF16, {5}};
  Attributes attributes{{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8},
                        {"weight_decay", Floats{0.1, 0}}, {"compute", "bf16"}, {"moments", "bf16"}};
  std::vector<ElementSegment> segments = {
      {.site = "a", .at = 3, .count = 1000, .first = 11, .dims = {50, 21}, .origin = {7, 2},
       .global = {60, 100}},
      {.site = "b", .at = 1010, .count = 1090, .dims = {1090}, .origin = {0}, .global = {1090}},
      {.site = "c", .buffer = 1, .count = 5, .dims = {5}, .origin = {0}, .global = {5}}};
  SetSegments(attributes, segments);
  const Type grad{DType::kBF16, {70, 30}};
  Check({.op = "adamw", .attributes = attributes,
         .operands = {state, grad, moment, moment, small, small, small_moment, small_moment, scalar,
                      scalar, scalar, scalar, key},
         .bounds = {{12, 1000}},
         .values = {{8, {1e-2}}, {9, {0.7}}, {10, {0.19}}, {11, {0.0975}}},
         .roundings = 0,
         .prepare = [](std::vector<HostTensor>& x) {
           MakePositive(x[3]);
           MakePositive(x[7]);
         }});
  segments.pop_back();
  Attributes sgd{{"momentum", 0.9}, {"weight_decay", Floats{0.01}}, {"moments", "bf16"}};
  SetSegments(sgd, segments);
  Check({.op = "sgd", .attributes = sgd, .operands = {state, grad, moment, scalar, scalar, key},
         .bounds = {{5, 1000}}, .values = {{3, {0.1}}, {4, {0.5}}}, .roundings = 0});
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
