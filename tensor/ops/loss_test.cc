#include "tensor/ops/loss.h"

#include <cmath>

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "tensor/ops/gradient_builder.h"
#include "tensor/testing/run_op.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

TEST(LossTest, EqualLogits) {
  HostTensor logits(Type{DType::kF32, {2, 12}});
  HostTensor labels = HostTensor::Of<int32_t>({2}, {9, -100});
  // Field case A13: vocabulary 10 padded to 12; 2.484907 would count the padding.
  HostTensor loss = RunOp(CrossEntropyOp(), {logits, labels}, {{"classes", 10}})[0];
  EXPECT_NEAR(loss.Get(0), 2.302585, 1e-6);
  HostTensor w(Type{DType::kF32, {12, 3}}), x(Type{DType::kF32, {2, 3}});
  loss = RunOp(LinearCrossEntropyOp(), {x, w, labels}, {{"classes", 10}})[0];
  EXPECT_NEAR(loss.Get(0), 2.302585, 1e-6);
}

// Field case A2: ignored positions give exactly zero gradient.
TEST(LossTest, A2IgnoredPositions) {
  std::mt19937_64 random(TestSeed());
  HostTensor logits = RandomTensor(DType::kF64, {2, 4}, random);
  HostTensor labels = HostTensor::Of<int64_t>({2}, {-100, -100});
  std::vector<HostTensor> y = RunOp(CrossEntropyOp(), {logits, labels}, {});
  EXPECT_EQ(y[0].Get(0), 0);
  HostTensor dloss = HostTensor::Of<double>({}, {3});
  HostTensor dx = RunOp(CrossEntropyGradOp(), {dloss, logits, labels, y[1]}, {})[0];
  EXPECT_EQ(dx.ToDoubles(), std::vector<double>(8, 0.0));
  // Another ignored label; one outside the classes is an error of the data.
  labels = HostTensor::Of<int64_t>({2}, {7, 7});
  EXPECT_EQ(RunOp(CrossEntropyOp(), {logits, labels}, {{"ignore", 7}})[0].Get(0), 0);
  EXPECT_TRUE(std::isnan(RunOp(CrossEntropyOp(), {logits, labels}, {})[0].Get(0)));
}

TEST(LossTest, CrossEntropyGradientFlopsAliases) {
  std::mt19937_64 random(TestSeed());
  HostTensor logits = RandomTensor(DType::kF64, {2, 2, 5}, random);
  HostTensor labels = HostTensor::Of<int32_t>({2, 2}, {0, 3, 2, 1});
  HostTensor dloss = HostTensor::Of<double>({}, {0.5});
  for (const Attributes& attributes : {Attributes{}, Attributes{{"classes", 4}}}) {
    ExpectGradient(CrossEntropyOp(), {logits, labels}, attributes, {0});
    ExpectFlops(CrossEntropyOp(), {logits, labels}, attributes);
    HostTensor lse = RunOp(CrossEntropyOp(), {logits, labels}, attributes)[1];
    ExpectFlops(CrossEntropyGradOp(), {dloss, logits, labels, lse}, attributes);
    ExpectAliasesHarmless(CrossEntropyGradOp(), {dloss, logits, labels, lse}, attributes);
  }
}

// Loss and gradients equal those of product and cross_entropy; dw is f32 for bf16 operands.
TEST(LossTest, LinearCrossEntropy) {
  std::mt19937_64 random(TestSeed());
  HostTensor x = RandomTensor(DType::kF64, {2, 3, 4}, random);
  HostTensor w = RandomTensor(DType::kF64, {5, 4}, random);
  HostTensor bias = RandomTensor(DType::kF64, {5}, random);
  HostTensor labels = HostTensor::Of<int32_t>({2, 3}, {0, 3, -100, 1, 4, 4});
  HostTensor seed = HostTensor::Of<double>({}, {0.25});
  Attributes attributes{{"with", Strings{"seed", "bias"}}};
  std::vector<HostTensor> y = RunOp(LinearCrossEntropyOp(), {x, w, labels, seed, bias}, attributes);
  ASSERT_EQ(y.size(), 4u);
  const std::vector<HostTensor> operands{x, w, labels, seed, bias};
  const int differentiated[] = {0, 1, 4};
  for (int k = 0; k < 3; ++k) {
    std::vector<double> differences;
    for (int64_t n = 0; n < operands[differentiated[k]].type().elements(); ++n) {
      double loss[2];
      for (int side : {0, 1}) {
        std::vector<HostTensor> moved = operands;
        double value = moved[differentiated[k]].Get(n);
        moved[differentiated[k]].Set(n, value + (side == 0 ? -1e-5 : 1e-5));
        loss[side] = RunOp(LinearCrossEntropyOp(), moved, attributes)[0].Get(0);
      }
      differences.push_back(0.25 * (loss[1] - loss[0]) / 2e-5);
    }
    EXPECT_TRUE(TensorNear(y[k + 1].ToDoubles(), differences, {.relative_to_max = 1e-7})) << k;
  }
  Types types{
      {DType::kBF16, {2, 4}}, {DType::kBF16, {5, 4}}, {DType::kI32, {2}}, {DType::kF32, {}}};
  ASSERT_OK_AND_ASSIGN(Types results, InferOp(LinearCrossEntropyOp(), types,
                                              {{"with", Strings{"seed"}}}));
  EXPECT_EQ(results, (Types{{DType::kF32, {}}, {DType::kBF16, {2, 4}}, {DType::kF32, {5, 4}}}));
}

TEST(LossTest, LinearCrossEntropyFlops) {
  std::mt19937_64 random(TestSeed());
  HostTensor x = RandomTensor(DType::kF64, {2, 4}, random);
  HostTensor w = RandomTensor(DType::kF64, {5, 4}, random);
  HostTensor bias = RandomTensor(DType::kF64, {5}, random);
  HostTensor labels = HostTensor::Of<int32_t>({2}, {0, 3});
  HostTensor seed = HostTensor::Of<double>({}, {1});
  ExpectFlops(LinearCrossEntropyOp(), {x, w, labels}, {});
  ExpectFlops(LinearCrossEntropyOp(), {x, w, labels, bias}, {{"with", Strings{"bias"}}});
  ExpectFlops(LinearCrossEntropyOp(), {x, w, labels, seed},
              {{"classes", 4}, {"with", Strings{"seed"}}});
  ExpectFlops(LinearCrossEntropyOp(), {x, w, labels, seed, bias},
              {{"with", Strings{"seed", "bias"}}});
}

// The gradients are made for `seed`: any other cotangent is refused.
TEST(LossTest, LinearCrossEntropyGradientRule) {
  GraphBuilder b("loss");
  ValueId x = b.Feed("x", {DType::kBF16, {2, 4}}), w = b.Feed("w", {DType::kBF16, {5, 4}});
  ValueId labels = b.Feed("labels", {DType::kI32, {2}}), seed = b.Feed("seed", {DType::kF32, {}});
  LossOptions options;
  options.seed = seed;
  ASSERT_NE(LinearCrossEntropy(b, x, w, labels, options), kNoValue);
  const Node& node = b.graph().nodes().back();
  auto gradient = [&](ValueId dloss) {
    return GradientBuilder(b, node.attributes, node.operands, node.results,
                           {dloss, kNoValue, kNoValue}, {true, true, false, false},
                           {false, true, false, false});
  };
  GradientBuilder good = gradient(seed);
  EXPECT_OK(LinearCrossEntropyOp().Gradient(good));
  EXPECT_EQ(good.dx(0), node.results[1]);
  EXPECT_EQ(good.dx(1), node.results[2]);
  GradientBuilder bad = gradient(b.Feed("other", {DType::kF32, {}}));
  EXPECT_THAT(LinearCrossEntropyOp().Gradient(bad),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("seed")));
}

TEST(LossTest, Factors) {
  Types types{{DType::kF32, {2, 3, 4}}, {DType::kF32, {5, 4}}, {DType::kI32, {2, 3}},
              {DType::kF32, {}}, {DType::kF32, {5}}};
  FactorRule rule = LinearCrossEntropyOp().Factors(
      {types, Attributes{{"with", Strings{"seed", "bias"}}}});
  EXPECT_EQ(rule.ToString(), "d0 d1 c, v c, d0 d1, , v -> , d0 d1 c, v c, v");
  EXPECT_EQ(rule.factors[rule.Find("v")].kind, FactorKind::kExpand);
  EXPECT_EQ(rule.factors[rule.Find("c")].kind, FactorKind::kExpand);
  types.resize(3);
  rule = LinearCrossEntropyOp().Factors({types, Attributes{}});
  EXPECT_EQ(rule.ToString(), "d0 d1 c, v c, d0 d1 -> ");
  EXPECT_EQ(rule.factors[rule.Find("d0")].kind, FactorKind::kSum);
  Types logits{{DType::kF32, {2, 5}}, {DType::kI32, {2}}};
  EXPECT_EQ(CrossEntropyOp().Factors({logits, Attributes{}}).ToString(), "d0 v, d0 -> , d0");
}

TEST(LossTest, Constraints) {
  Type x{DType::kF32, {2, 4}}, w{DType::kF32, {5, 4}}, labels{DType::kI32, {2}};
  Type scalar{DType::kF32, {}}, lse{DType::kF32, {2}};
  const struct {
    const char* constraint;
    const Op* op;
    Types operands;
    Attributes attributes;
  } refusals[] = {
      {"loss_c1", &CrossEntropyOp(), {x}, {}},
      {"loss_c1", &CrossEntropyOp(), {x, {DType::kI32, {3}}}, {}},
      {"loss_c1", &CrossEntropyOp(), {x, lse}, {}},
      {"loss_c2", &CrossEntropyOp(), {x, labels}, {{"classes", 5}}},
      {"loss_c2", &CrossEntropyOp(), {x, labels}, {{"classes", 0}}},
      {"loss_c2", &CrossEntropyOp(), {x, labels}, {{"chunk", 5}}},
      {"loss_c2", &CrossEntropyOp(), {x, labels}, {{"origin", 5}}},
      {"loss_c2", &CrossEntropyGradOp(), {scalar, x, labels, lse}, {{"origin", -1}}},
      {"loss_c2", &CrossEntropyGradOp(), {scalar, x, labels, lse}, {{"origin", 4}, {"classes", 0}}},
      {"loss_c7", &CrossEntropyGradOp(), {scalar, x, labels, lse}, {{"dtype", "i32"}}},
      {"loss_c3", &CrossEntropyGradOp(), {lse, x, labels, lse}, {}},
      {"loss_c3", &CrossEntropyGradOp(), {scalar, x, labels, scalar}, {}},
      {"loss_c4", &LinearCrossEntropyOp(), {x, {DType::kF32, {4, 5}}, labels}, {}},
      {"loss_c5", &LinearCrossEntropyOp(), {x, w, labels, scalar}, {}},
      {"loss_c5", &LinearCrossEntropyOp(), {x, w, labels, lse}, {{"with", Strings{"seed"}}}},
      {"loss_c5", &LinearCrossEntropyOp(), {x, w, labels, lse}, {{"with", Strings{"bias"}}}},
      {"loss_c6", &LinearCrossEntropyOp(), {x, w, labels}, {{"chunk", 0}}},
  };
  for (const auto& r : refusals) {
    EXPECT_THAT(InferOp(*r.op, r.operands, r.attributes),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(r.constraint)));
  }
}

}  // namespace
}  // namespace colossus
