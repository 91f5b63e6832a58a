#include "tensor/ops/embedding.h"

#include <cmath>

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/testing/run_op.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

TEST(EmbeddingTest, RowsById) {
  HostTensor table = HostTensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  HostTensor ids = HostTensor::Of<int64_t>({2, 2}, {2, 0, 1, 3});
  HostTensor y = RunOp(EmbeddingOp(), {table, ids}, {})[0];
  EXPECT_EQ(y.type(), (Type{DType::kF32, {2, 2, 2}}));
  EXPECT_EQ(std::vector<double>({5, 6, 1, 2, 3, 4}),
            std::vector<double>({y.Get(0), y.Get(1), y.Get(2), y.Get(3), y.Get(4), y.Get(5)}));
  EXPECT_TRUE(std::isnan(y.Get(6)));  // id 3: outside
  // The part of a larger table that starts at id 1.
  y = RunOp(EmbeddingOp(), {table, ids}, {{"origin", 1}, {"dtype", "f64"}})[0];
  EXPECT_EQ(y.ToDoubles(), (std::vector<double>{3, 4, 0, 0, 1, 2, 5, 6}));
}

// 1e16 + 1 is 1e16 in f64: the order of additions shows.
TEST(EmbeddingTest, GradientAddsInPositionOrder) {
  HostTensor dy = HostTensor::Of<double>({3, 1}, {1e16, 1, -1e16});
  HostTensor ids = HostTensor::Of<int32_t>({3}, {1, 1, 1});
  Attributes attributes{{"rows", 2}, {"dtype", "f64"}};
  EXPECT_EQ(RunOp(EmbeddingGradOp(), {dy, ids}, attributes)[0].ToDoubles(),
            (std::vector<double>{0, 0}));
  dy = HostTensor::Of<double>({3, 1}, {1e16, -1e16, 1});
  EXPECT_EQ(RunOp(EmbeddingGradOp(), {dy, ids}, attributes)[0].ToDoubles(),
            (std::vector<double>{0, 1}));
}

TEST(EmbeddingTest, GradientAndFlops) {
  std::mt19937_64 random(TestSeed());
  HostTensor table = RandomTensor(DType::kF64, {4, 3}, random);
  HostTensor ids = HostTensor::Of<int32_t>({2, 3}, {0, 3, 3, 1, 0, 3});
  ExpectGradient(EmbeddingOp(), {table, ids}, {}, {0});
  ExpectFlops(EmbeddingOp(), {table, ids}, {});
  ExpectFlops(EmbeddingGradOp(), {RandomTensor(DType::kF64, {2, 3, 3}, random), ids},
              {{"rows", 4}, {"dtype", "f64"}});
  HostTensor part = HostTensor::Of<int32_t>({2}, {6, 9});
  ExpectGradient(EmbeddingOp(), {table, part}, {{"origin", 5}}, {0});
}

TEST(EmbeddingTest, Factors) {
  Types types{{DType::kF32, {5, 3}}, {DType::kI32, {2, 4}}};
  FactorRule rule = EmbeddingOp().Factors({types, Attributes{}});
  EXPECT_EQ(rule.ToString(), "v c, d0 d1 -> d0 d1 c");
  EXPECT_EQ(rule.factors[rule.Find("v")].kind, FactorKind::kIndexed);
  Types gradient{{DType::kF32, {2, 4, 3}}, {DType::kI32, {2, 4}}};
  rule = EmbeddingGradOp().Factors({gradient, Attributes{{"rows", 5}, {"dtype", "f32"}}});
  EXPECT_EQ(rule.ToString(), "d0 d1 c, d0 d1 -> v c");
  EXPECT_EQ(rule.factors[rule.Find("d0")].kind, FactorKind::kSum);
}

TEST(EmbeddingTest, Constraints) {
  Type table{DType::kF32, {5, 3}}, ids{DType::kI32, {2}}, dy{DType::kF32, {2, 3}};
  Attributes gradient{{"rows", 5}, {"dtype", "f32"}};
  const struct {
    const char* constraint;
    const Op* op;
    Types operands;
    Attributes attributes;
  } refusals[] = {
      {"embedding_c1", &EmbeddingOp(), {table}, {}},
      {"embedding_c1", &EmbeddingOp(), {table, {DType::kF32, {2}}}, {}},
      {"embedding_c1", &EmbeddingGradOp(), {ids, ids}, gradient},
      {"embedding_c2", &EmbeddingOp(), {{DType::kF32, {5}}, ids}, {}},
      {"embedding_c2", &EmbeddingGradOp(), {dy, {DType::kI32, {3}}}, gradient},
      {"embedding_c3", &EmbeddingOp(), {table, ids}, {{"rows", 5}}},
      {"embedding_c3", &EmbeddingGradOp(), {dy, ids}, {{"rows", 5}}},
      {"embedding_c4", &EmbeddingOp(), {table, ids}, {{"dtype", "i64"}}},
      {"embedding_c5", &EmbeddingOp(), {table, ids}, {{"origin", -1}}},
  };
  for (const auto& r : refusals) {
    EXPECT_THAT(InferOp(*r.op, r.operands, r.attributes),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(r.constraint)));
  }
}

}  // namespace
}  // namespace colossus
