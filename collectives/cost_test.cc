#include "collectives/cost.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace colossus {
namespace {

constexpr LinkRates kRates = {.alpha = 1000, .beta = 1, .gamma = 0.125};

Collective AllReduceOf(int64_t count, DType dtype = DType::kF32) {
  Collective op;
  op.kind = CollectiveKind::kAllReduce;
  op.dtype = dtype;
  op.count = count;
  return op;
}

// The textbook's formulas in f32 (n bytes): 2 (P - 1)/P n beta and so on.
TEST(CostTest, AllReduceFollowsTheFormulas) {
  const int p = 8;
  const double n = 4 * 8000, alpha = kRates.alpha, share = (p - 1.0) / p;
  const Collective op = AllReduceOf(8000);
  const auto seconds = [&](Algorithm algorithm) {
    return CostOf(algorithm, op, p, kRates).seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(Algorithm::kPairwise),
                   2 * (p - 1) * alpha + 2 * share * n + share * n / 8);
  EXPECT_DOUBLE_EQ(seconds(Algorithm::kHalving), 2 * 3 * alpha + 2 * share * n + share * n / 8);
  EXPECT_DOUBLE_EQ(seconds(Algorithm::kDoubling), 3 * (alpha + n + n / 8));
  EXPECT_DOUBLE_EQ(seconds(Algorithm::kTree), 3 * (2 * alpha + 2 * n + n / 8));
  EXPECT_EQ(CostOf(Algorithm::kHalving, op, p, kRates).elements, 2 * 7 * 1000);
}

// n* = alpha log2 P / [(log2 P - 2 (P-1)/P) beta + (log2 P - (P-1)/P) gamma] bytes.
TEST(CostTest, DoublingGivesWayToHalvingAtTheCrossing) {
  for (int p : {4, 8, 16}) {
    const double steps = std::log2(p), share = (p - 1.0) / p;
    const double crossing =
        kRates.alpha * steps / ((steps - 2 * share) * kRates.beta + (steps - share) * kRates.gamma);
    const int64_t n = static_cast<int64_t>(crossing / 4 / p) * p;
    EXPECT_EQ(ChooseAlgorithm(AllReduceOf(n - p), p, kRates), Algorithm::kDoubling);
    EXPECT_EQ(ChooseAlgorithm(AllReduceOf(n + p), p, kRates), Algorithm::kHalving);
  }
}

TEST(CostTest, ChoosesByLengthAndNumberOfRanks) {
  // With an odd number of ranks: the tree while short, pairwise exchange when long.
  EXPECT_EQ(ChooseAlgorithm(AllReduceOf(1), 6, kRates), Algorithm::kTree);
  EXPECT_EQ(ChooseAlgorithm(AllReduceOf(100000), 6, kRates), Algorithm::kPairwise);
  // As much memory again as the operation has is no good for long ones.
  EXPECT_EQ(ChooseAlgorithm(AllReduceOf(100 << 20), 8, kRates), Algorithm::kPairwise);
  EXPECT_FALSE(CanDo(Algorithm::kHalving, AllReduceOf(8), 6));
  EXPECT_TRUE(CanDo(Algorithm::kHalving, AllReduceOf(8), 4));
}

TEST(CostTest, SumsOverRanksAreThoseOfTheFormulas) {
  for (int p : {2, 3, 4, 6, 8}) {
    const int64_t n = 960;
    for (Algorithm algorithm : kMessageAlgorithms) {
      if (!CanDo(algorithm, AllReduceOf(n), p)) continue;
      int64_t elements = 0;
      for (int r = 0; r < p; ++r) elements += CountsOf(algorithm, AllReduceOf(n), r, p).elements;
      const int64_t expected = algorithm == Algorithm::kDoubling
                                   ? p * n * static_cast<int64_t>(std::log2(p))
                                   : 2 * (p - 1) * n;
      EXPECT_EQ(elements, expected) << Name(algorithm) << ", " << p << " ranks";
    }
  }
}

// Halves double their bytes while they travel as partial sums, but for the first step.
TEST(CostTest, PartialSumsOfHalvesTravelInFloat) {
  const CollectiveCounts f32 = CountsOf(Algorithm::kHalving, AllReduceOf(64), 0, 4);
  const CollectiveCounts bf16 = CountsOf(Algorithm::kHalving, AllReduceOf(64, DType::kBF16), 0, 4);
  EXPECT_EQ(f32.bytes, 4 * 2 * 48);
  EXPECT_EQ(bf16.bytes, 2 * 32 + 4 * 16 + 2 * 48);
  EXPECT_EQ(bf16.elements, f32.elements);
}

TEST(CostTest, PlannersAskWithoutBuffers) {
  EXPECT_EQ(CollectiveSeconds(CollectiveKind::kAllGather, DType::kBF16, 1000, 1), 0);
  EXPECT_DOUBLE_EQ(CollectiveSeconds(CollectiveKind::kAllToAll, DType::kBF16, 3000, 3, kRates),
                   2 * 1000 + 2 * 2000);
  EXPECT_DOUBLE_EQ(CollectiveSeconds(CollectiveKind::kExchange, DType::kF32, 10, 3, kRates), 1040);
  EXPECT_DOUBLE_EQ(CollectiveSeconds(CollectiveKind::kBarrier, DType::kF32, 0, 5, kRates), 3000);
  EXPECT_DOUBLE_EQ(CollectiveSeconds(CollectiveKind::kBroadcast, DType::kF32, 10, 5, kRates),
                   3 * 1040);
}

}  // namespace
}  // namespace colossus
