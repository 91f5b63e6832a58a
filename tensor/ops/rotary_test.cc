#include "tensor/ops/rotary.h"

#include <cmath>

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "tensor/testing/run_op.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

// Field case G4: head size 8, half of it rotated, position 1, frequencies 1 and 0.01.
TEST(RotaryTest, G4PartialRotation) {
  HostTensor x = HostTensor::Of<float>({1, 1, 1, 8}, {1, 2, 3, 4, 5, 6, 7, 8});
  HostTensor positions = HostTensor::Of<int32_t>({1, 1}, {1});
  HostTensor frequencies = HostTensor::Of<float>({2}, {1, 0.01f});
  HostTensor y = RunOp(RotaryOp(), {x, positions, frequencies}, {})[0];
  std::vector<double> expected{-1.984111, 1.959901, 2.462378, 4.019800, 5, 6, 7, 8};
  EXPECT_TRUE(TensorNear(y.ToDoubles(), expected, {.absolute = 1e-6}));

  // Backward is the inverse rotation.
  HostTensor back = RunOp(RotaryOp(), {y, positions, frequencies}, {{"inverse", true}})[0];
  EXPECT_TRUE(TensorNear(back.ToDoubles(), x.ToDoubles(), {.absolute = 1e-6}));

  // Neighbouring pairs: (1, 2) by angle 1.
  HostTensor pairs = RunOp(RotaryOp(), {x, positions, frequencies}, {{"interleaved", true}})[0];
  EXPECT_NEAR(pairs.Get(0), -1.142640, 1e-6);
}

TEST(RotaryTest, ScaleAndPositions) {
  HostTensor x = HostTensor::Of<double>({1, 2, 1, 2}, {3, 4, 3, 4});
  HostTensor positions = HostTensor::Of<int32_t>({1, 2}, {0, 7});
  HostTensor frequencies = HostTensor::Of<float>({1}, {0.5f});
  HostTensor y = RunOp(RotaryOp(), {x, positions, frequencies}, {{"scale", 2.0}})[0];
  double c = std::cos(3.5), s = std::sin(3.5);
  std::vector<double> expected{6, 8, 2 * (3 * c - 4 * s), 2 * (4 * c + 3 * s)};
  EXPECT_TRUE(TensorNear(y.ToDoubles(), expected, {.absolute = 1e-14}));
}

TEST(RotaryTest, GradientFlopsAliases) {
  std::mt19937_64 random(TestSeed());
  HostTensor x = RandomTensor(DType::kF64, {2, 3, 2, 6}, random);
  HostTensor positions = HostTensor::Of<int32_t>({2, 3}, {0, 1, 2, 5, 3, 1});
  HostTensor frequencies = HostTensor::Of<float>({2}, {1, 0.25f});
  for (bool interleaved : {false, true}) {
    Attributes attributes{{"interleaved", interleaved}, {"scale", 1.5}};
    ExpectGradient(RotaryOp(), {x, positions, frequencies}, attributes, {0});
    ExpectFlops(RotaryOp(), {x, positions, frequencies}, attributes);
    ExpectAliasesHarmless(RotaryOp(), {x, positions, frequencies}, attributes);
  }
}

TEST(RotaryTest, Factors) {
  Types types{{DType::kF32, {2, 3, 4, 6}}, {DType::kI32, {2, 3}}, {DType::kF32, {3}}};
  FactorRule rule = RotaryOp().Factors({types, Attributes{}});
  EXPECT_EQ(rule.ToString(), "b s h d, b s, f -> b s h d");
  EXPECT_EQ(rule.factors[rule.Find("d")].kind, FactorKind::kWhole);
  EXPECT_EQ(rule.factors[rule.Find("f")].kind, FactorKind::kWhole);
  EXPECT_EQ(rule.factors[rule.Find("s")].kind, FactorKind::kParallel);
}

TEST(RotaryTest, Constraints) {
  Type x{DType::kF32, {2, 3, 4, 6}}, positions{DType::kI32, {2, 3}}, frequencies{DType::kF32, {3}};
  const struct {
    const char* constraint;
    Types operands;
    Attributes attributes;
  } refusals[] = {
      {"rotary_c1", {x, positions}, {}},
      {"rotary_c1", {{DType::kF32, {2, 3, 24}}, positions, frequencies}, {}},
      {"rotary_c2", {x, {DType::kI32, {3}}, frequencies}, {}},
      {"rotary_c2", {x, {DType::kI64, {2, 3}}, frequencies}, {}},
      {"rotary_c3", {x, positions, {DType::kF32, {4}}}, {}},
      {"rotary_c4", {x, positions, frequencies}, {{"theta", 1e4}}},
      {"rotary_c4", {x, positions, frequencies}, {{"interleaved", 1}}},
  };
  for (const auto& r : refusals) {
    EXPECT_THAT(InferOp(RotaryOp(), r.operands, r.attributes),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(r.constraint)));
  }
}

}  // namespace
}  // namespace colossus
