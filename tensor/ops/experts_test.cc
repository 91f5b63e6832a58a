#include "tensor/ops/experts.h"

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/ops/topk.h"
#include "tensor/testing/run_op.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

TEST(TopkTest, DescendingAndLowerIndexFirst) {
  HostTensor scores = HostTensor::Of<float>({2, 4}, {1, 3, 2, 3, 0, 0, 0, 0});
  std::vector<HostTensor> y = RunOp(TopkOp(), {scores}, {{"k", 3}});
  EXPECT_EQ(y[0].ToDoubles(), (std::vector<double>{3, 3, 2, 0, 0, 0}));
  EXPECT_EQ(y[1].ToDoubles(), (std::vector<double>{1, 3, 2, 0, 1, 2}));
  std::mt19937_64 random(TestSeed());
  ExpectGradient(TopkOp(), {RandomTensor(DType::kF64, {3, 5}, random)}, {{"k", 2}}, {0});
  ExpectFlops(TopkOp(), {scores}, {{"k", 3}});
}

TEST(TopkTest, Constraints) {
  Type scores{DType::kF32, {2, 4}}, indices{DType::kI32, {2, 2}}, values{DType::kF32, {2, 2}};
  const struct {
    const char* constraint;
    const Op* op;
    Types operands;
    Attributes attributes;
  } refusals[] = {
      {"topk_c1", &TopkOp(), {{DType::kF32, {4}}}, {{"k", 1}}},
      {"topk_c1", &TopkGradOp(), {values, values}, {{"entries", 4}}},
      {"topk_c2", &TopkOp(), {scores}, {}},
      {"topk_c3", &TopkOp(), {scores}, {{"k", 5}}},
      {"topk_c3", &TopkOp(), {scores}, {{"k", 0}}},
      {"topk_c3", &TopkGradOp(), {values, indices}, {{"entries", 1}}},
  };
  for (const auto& r : refusals) {
    EXPECT_THAT(InferOp(*r.op, r.operands, r.attributes),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(r.constraint)));
  }
}

// Three tokens with two slots each; expert 1 of 3 gets nothing, one slot goes nowhere.
class ExpertsTest : public ::testing::Test {
 protected:
  HostTensor x_ = HostTensor::Of<double>({3, 1}, {10, 20, 30});
  HostTensor chosen_ = HostTensor::Of<int32_t>({3, 2}, {2, 0, 0, 2, 0, -1});
};

TEST_F(ExpertsTest, DispatchSortsByExpert) {
  std::vector<HostTensor> y = RunOp(DispatchOp(), {x_, chosen_}, {{"experts", 3}});
  EXPECT_EQ(y[0].ToDoubles(), (std::vector<double>{10, 20, 30, 10, 20, 0}));
  EXPECT_EQ(y[1].ToDoubles(), (std::vector<double>{3, 0, 2}));
  EXPECT_EQ(y[2].ToDoubles(), (std::vector<double>{1, 2, 4, 0, 3, -1}));
  ExpectGradient(DispatchOp(), {x_, chosen_}, {{"experts", 3}}, {0});
  ExpectFlops(DispatchOp(), {x_, chosen_}, {{"experts", 3}});
}

TEST_F(ExpertsTest, CombineWeighsAndAdds) {
  std::vector<HostTensor> d = RunOp(DispatchOp(), {x_, chosen_}, {{"experts", 3}});
  HostTensor weights = HostTensor::Of<double>({3, 2}, {0.25, 0.75, 0.5, 1.5, 2, 4});
  EXPECT_EQ(RunOp(CombineOp(), {d[0], d[2], weights}, {})[0].ToDoubles(),
            (std::vector<double>{10, 40, 60}));
  std::mt19937_64 random(TestSeed());
  HostTensor rows = RandomTensor(DType::kF64, {6, 4}, random);
  ExpectGradient(CombineOp(), {rows, d[2], weights}, {}, {0, 2});
  HostTensor full_order = HostTensor::Of<int32_t>({6}, {1, 2, 4, 0, 3, 5});
  ExpectFlops(CombineOp(), {rows, full_order, weights}, {});
  HostTensor dy = RandomTensor(DType::kF64, {3, 4}, random);
  ExpectFlops(CombineGradOp(), {dy, rows, full_order, weights}, {});
  ExpectFlops(DispatchGradOp(), {rows, full_order}, {{"tokens", 3}, {"slots", 2}});
}

TEST_F(ExpertsTest, GroupedMatmul) {
  HostTensor rows = HostTensor::Of<double>({4, 1}, {1, 2, 3, 4});
  HostTensor w = HostTensor::Of<double>({3, 1, 2}, {1, 10, 2, 20, 3, 30});
  HostTensor counts = HostTensor::Of<int32_t>({3}, {2, 0, 1});
  EXPECT_EQ(RunOp(GroupedMatmulOp(), {rows, w, counts}, {})[0].ToDoubles(),
            (std::vector<double>{1, 10, 2, 20, 9, 90, 0, 0}));
  std::mt19937_64 random(TestSeed());
  HostTensor x = RandomTensor(DType::kF64, {5, 3}, random);
  for (bool transpose : {false, true}) {
    HostTensor v = RandomTensor(DType::kF64, transpose ? Dims{3, 2, 3} : Dims{3, 3, 2}, random);
    Attributes attributes{{"transpose", transpose}};
    ExpectGradient(GroupedMatmulOp(), {x, v, counts}, attributes, {0, 1});
    HostTensor full = HostTensor::Of<int32_t>({3}, {2, 0, 3});
    ExpectFlops(GroupedMatmulOp(), {x, v, full}, attributes);
    HostTensor dy = RandomTensor(DType::kF64, {5, 2}, random);
    ExpectFlops(GroupedMatmulGradWOp(), {x, dy, full}, {});
  }
}

// Field case A8 for one rank: per-token weight gradients 1 to 4, mean over four tokens. Field case
// D4: the expert without tokens has a gradient of exact zeros.
TEST_F(ExpertsTest, A8D4WeightGradients) {
  HostTensor x = HostTensor::Of<float>({4, 1}, {1, 2, 3, 4});
  HostTensor dy = HostTensor::Of<float>({4, 1}, {0.25f, 0.25f, 0.25f, 0.25f});
  HostTensor counts = HostTensor::Of<int32_t>({2}, {4, 0});
  EXPECT_EQ(RunOp(GroupedMatmulGradWOp(), {x, dy, counts}, {})[0].ToDoubles(),
            (std::vector<double>{2.5, 0}));
}

TEST_F(ExpertsTest, Factors) {
  Types types{{DType::kF32, {3, 4}}, {DType::kI32, {3, 2}}};
  FactorRule rule = DispatchOp().Factors({types, Attributes{{"experts", 5}}});
  EXPECT_EQ(rule.ToString(), "n c, n k -> (n k) c, e, (n k)");
  EXPECT_EQ(rule.factors[rule.Find("n")].kind, FactorKind::kExpand);
  EXPECT_EQ(rule.factors[rule.Find("c")].kind, FactorKind::kWhole);
  Types product{{DType::kF32, {6, 4}}, {DType::kF32, {5, 4, 7}}, {DType::kI32, {5}}};
  rule = GroupedMatmulOp().Factors({product, Attributes{}});
  EXPECT_EQ(rule.ToString(), "m c, e c d, e -> m d");
  EXPECT_EQ(rule.factors[rule.Find("c")].kind, FactorKind::kSum);
  EXPECT_EQ(rule.factors[rule.Find("d")].kind, FactorKind::kParallel);
}

TEST_F(ExpertsTest, Constraints) {
  Type x{DType::kF32, {3, 4}}, chosen{DType::kI32, {3, 2}}, rows{DType::kF32, {6, 4}};
  Type order{DType::kI32, {6}}, weights{DType::kF32, {3, 2}}, w{DType::kF32, {5, 4, 7}};
  Type counts{DType::kI32, {5}}, bf16{DType::kBF16, {6, 4}};
  const struct {
    const char* constraint;
    const Op* op;
    Types operands;
    Attributes attributes;
  } refusals[] = {
      {"experts_c1", &DispatchOp(), {x}, {{"experts", 5}}},
      {"experts_c1", &DispatchOp(), {x, {DType::kI32, {4, 2}}}, {{"experts", 5}}},
      {"experts_c1", &DispatchGradOp(), {rows, order}, {{"tokens", 3}, {"slots", 3}}},
      {"experts_c1", &CombineOp(), {rows, {DType::kI32, {5}}, weights}, {}},
      {"experts_c1", &CombineGradOp(), {rows, rows, order, weights}, {}},
      {"experts_c1", &GroupedMatmulOp(), {rows, w, counts}, {{"transpose", true}}},
      {"experts_c1", &GroupedMatmulGradWOp(), {rows, x, counts}, {}},
      {"experts_c2", &DispatchOp(), {x, weights}, {{"experts", 5}}},
      {"experts_c2", &GroupedMatmulOp(), {bf16, w, counts}, {}},
      {"experts_c2", &GroupedMatmulGradWOp(), {rows, bf16, counts}, {}},
      {"experts_c3", &DispatchOp(), {x, chosen}, {}},
      {"experts_c3", &CombineOp(), {rows, order, weights}, {{"k", 2}}},
      {"experts_c4", &DispatchOp(), {x, chosen}, {{"experts", 0}}},
      {"experts_c4", &DispatchGradOp(), {rows, order}, {{"tokens", -3}, {"slots", 2}}},
      {"experts_c5", &GroupedMatmulOp(), {rows, w, counts}, {{"dtype", "bool"}}},
  };
  for (const auto& r : refusals) {
    EXPECT_THAT(InferOp(*r.op, r.operands, r.attributes),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(r.constraint)));
  }
}

}  // namespace
}  // namespace colossus
