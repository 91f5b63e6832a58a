#include "tensor/ops/norm.h"

#include <cmath>

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "tensor/testing/run_op.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;
constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

// Mean 2, variance 2/3; mean square 14/3.
TEST(NormTest, ValuesByHand) {
  HostTensor x = HostTensor::Of<double>({1, 3}, {1, 2, 3});
  HostTensor weight = HostTensor::Of<double>({3}, {1, 2, 3});
  HostTensor bias = HostTensor::Of<double>({3}, {10, 20, 30});
  std::vector<HostTensor> y = RunOp(LayerNormOp(), {x, weight, bias},
                                    {{"eps", 0.0}, {"with", Strings{"weight", "bias"}}});
  double rstd = std::sqrt(1.5);
  EXPECT_TRUE(TensorNear(y[0].ToDoubles(), std::vector<double>{10 - rstd, 20, 30 + 3 * rstd},
                         {.absolute = 1e-14}));
  EXPECT_DOUBLE_EQ(y[1].Get(0), 2);
  EXPECT_DOUBLE_EQ(y[2].Get(0), rstd);

  rstd = std::sqrt(3 / 14.0);
  for (int offset : {0, 1}) {
    std::vector<HostTensor> z = RunOp(
        RmsNormOp(), {x, weight}, {{"eps", 0.0}, {"offset", offset}, {"with", Strings{"weight"}}});
    std::vector<double> expected{rstd * (1 + offset), 2 * rstd * (2 + offset),
                                 3 * rstd * (3 + offset)};
    EXPECT_TRUE(TensorNear(z[0].ToDoubles(), expected, {.absolute = 1e-14}));
  }
}

TEST(NormTest, MixedDtypes) {
  Type x{DType::kF32, {2, 3, 4}}, weight{DType::kBF16, {4}};
  Attributes attributes{{"eps", 1e-6}, {"dtype", "bf16"}, {"with", Strings{"weight"}}};
  ASSERT_OK_AND_ASSIGN(Types y, InferOp(RmsNormOp(), {x, weight}, attributes));
  EXPECT_EQ(y, (Types{{DType::kBF16, {2, 3, 4}}, {DType::kF32, {2, 3}}}));
  ASSERT_OK_AND_ASSIGN(Types dx, InferOp(RmsNormGradOp(), {y[0], x, y[1], weight},
                                         {{"with", Strings{"weight"}}}));
  EXPECT_EQ(dx, (Types{x, {DType::kF32, {4}}}));
}

struct NormCase {
  const Op* op;
  int parameters;
  Attributes attributes;
};

TEST(NormTest, GradientsAndFlops) {
  Strings both{"weight", "bias"}, weight{"weight"}, bias{"bias"};
  const NormCase cases[] = {
      {&LayerNormOp(), 0, {{"eps", 1e-5}}},
      {&LayerNormOp(), 1, {{"eps", 1e-5}, {"with", weight}}},
      {&LayerNormOp(), 1, {{"eps", 1e-5}, {"with", bias}}},
      {&LayerNormOp(), 2, {{"eps", 1e-5}, {"with", both}}},
      {&RmsNormOp(), 0, {{"eps", 1e-5}}},
      {&RmsNormOp(), 1, {{"eps", 1e-5}, {"with", weight}}},
      {&RmsNormOp(), 1, {{"eps", 1e-5}, {"offset", 1}, {"with", weight}}},
  };
  std::mt19937_64 random(TestSeed());
  for (const NormCase& c : cases) {
    std::vector<HostTensor> x{RandomTensor(DType::kF64, {2, 3, 5}, random)};
    std::vector<int> wanted{0};
    for (int i = 0; i < c.parameters; ++i) {
      x.push_back(RandomTensor(DType::kF64, {5}, random));
      wanted.push_back(i + 1);
    }
    ExpectGradient(*c.op, x, c.attributes, wanted);
    ExpectFlops(*c.op, x, c.attributes);
  }
}

TEST(NormTest, GradientFlops) {
  std::mt19937_64 random(TestSeed());
  HostTensor x = RandomTensor(DType::kF64, {3, 5}, random);
  HostTensor rows = RandomTensor(DType::kF64, {3}, random);
  HostTensor w = RandomTensor(DType::kF64, {5}, random);
  for (bool bias : {false, true}) {
    ExpectFlops(LayerNormGradOp(), {x, x, rows, rows}, {{"bias", bias}});
    ExpectFlops(LayerNormGradOp(), {x, x, rows, rows, w},
                {{"bias", bias}, {"with", Strings{"weight"}}});
  }
  ExpectFlops(RmsNormGradOp(), {x, x, rows}, {});
  for (int offset : {0, 1}) {
    ExpectFlops(RmsNormGradOp(), {x, x, rows, w},
                {{"offset", offset}, {"with", Strings{"weight"}}});
  }
}

TEST(NormTest, Factors) {
  Type x{DType::kF32, {4, 6}}, w{DType::kF32, {6}}, rows{DType::kF32, {4}};
  Attributes attributes{{"eps", 0.0}, {"with", Strings{"weight", "bias"}}};
  EXPECT_EQ(LayerNormOp().Factors({Types{x, w, w}, attributes}).ToString(),
            "d0 c, c, c -> d0 c, d0, d0");
  Attributes grad{{"bias", true}, {"with", Strings{"weight"}}};
  FactorRule rule = LayerNormGradOp().Factors({Types{x, x, rows, rows, w}, grad});
  EXPECT_EQ(rule.ToString(), "d0 c, d0 c, d0, d0, c -> d0 c, c, c");
  EXPECT_EQ(rule.factors[rule.Find("c")].kind, FactorKind::kWhole);
  EXPECT_EQ(rule.factors[rule.Find("d0")].kind, FactorKind::kParallel);
  EXPECT_EQ(RmsNormGradOp().Factors({Types{x, x, rows}, Attributes{}}).ToString(),
            "d0 c, d0 c, d0 -> d0 c");
}

struct Refusal {
  const char* constraint;
  const Op* op;
  Types operands;
  Attributes attributes;
};

TEST(NormTest, Constraints) {
  Type x{DType::kF32, {2, 4}}, w{DType::kF32, {4}}, rows{DType::kF32, {2}};
  Type ids{DType::kI32, {2, 4}}, wide{DType::kF32, {5}};
  Strings weight{"weight"};
  const Refusal refusals[] = {
      {"norm_c1", &LayerNormOp(), {ids}, {{"eps", 1e-5}}},
      {"norm_c1", &RmsNormOp(), {{DType::kF32, {}}}, {{"eps", 1e-5}}},
      {"norm_c2", &LayerNormOp(), {x}, {}},
      {"norm_c2", &LayerNormOp(), {x}, {{"eps", 1}}},
      {"norm_c2", &LayerNormOp(), {x}, {{"eps", 1e-5}, {"offset", 1}}},
      {"norm_c3", &RmsNormOp(), {x, w}, {{"eps", 1e-5}}},
      {"norm_c3", &RmsNormOp(), {x, w}, {{"eps", 1e-5}, {"with", Strings{"bias"}}}},
      {"norm_c3", &LayerNormOp(), {}, {{"eps", 1e-5}}},
      {"norm_c4", &RmsNormOp(), {x, wide}, {{"eps", 1e-5}, {"with", weight}}},
      {"norm_c5", &RmsNormOp(), {x}, {{"eps", -1.0}}},
      {"norm_c5", &RmsNormOp(), {x}, {{"eps", 1e-5}, {"offset", 2}}},
      {"norm_c6", &RmsNormOp(), {x}, {{"eps", 1e-5}, {"dtype", "i32"}}},
      {"norm_c7", &RmsNormGradOp(), {x, x, w}, {}},
      {"norm_c7", &LayerNormGradOp(), {rows, x, rows, rows}, {{"bias", false}}},
  };
  for (const Refusal& r : refusals) {
    EXPECT_THAT(InferOp(*r.op, r.operands, r.attributes),
                StatusIs(kInvalid, HasSubstr(r.constraint)));
  }
}

}  // namespace
}  // namespace colossus
