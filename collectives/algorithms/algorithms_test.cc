// Every algorithm against the reference, bit by bit, and what it sends against cost.h.
#include <string>
#include <vector>

#include "base/testing/seed.h"
#include "base/testing/tensor_near.h"
#include "collectives/algorithms/pairwise.h"
#include "collectives/algorithms/run_algorithm.h"
#include "collectives/cost.h"
#include "collectives/testing/random_operation.h"
#include "collectives/testing/thread_links.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

constexpr int kSizes[] = {1, 2, 3, 4, 5, 7, 8, 16};

// Runs the case by every algorithm that can do it; returns how many did.
int RunByAll(const CollectiveCase& shape, uint64_t seed) {
  const std::vector<std::vector<char>> expected = ExpectedResults(shape, seed);
  int ran = 0;
  for (Algorithm algorithm : kMessageAlgorithms) {
    std::vector<RankBuffers> buffers;
    for (int r = 0; r < shape.ranks; ++r) buffers.push_back(MakeBuffers(shape, r, seed));
    if (!CanDo(algorithm, buffers[0].operation, shape.ranks)) continue;
    ++ran;
    SCOPED_TRACE(Describe(shape) + ", by " + std::string(Name(algorithm)));
    const std::vector<CollectiveCounts> sent =
        RunOnThreadLinks(shape.ranks, [&](PointToPoint& link) {
          return RunAlgorithm(algorithm, link, buffers[static_cast<size_t>(link.rank())].operation);
        });
    for (int r = 0; r < shape.ranks; ++r) {
      const size_t i = static_cast<size_t>(r);
      EXPECT_TRUE(BitEqual<char>(buffers[i].Result(), expected[i])) << "rank " << r;
      const CollectiveCounts counts = CountsOf(algorithm, buffers[i].operation, r, shape.ranks);
      EXPECT_EQ(sent[i].messages, counts.messages) << "rank " << r;
      EXPECT_EQ(sent[i].elements, counts.elements) << "rank " << r;
      EXPECT_EQ(sent[i].bytes, counts.bytes) << "rank " << r;
    }
  }
  return ran;
}

TEST(AlgorithmsTest, Reductions) {
  uint64_t seed = TestSeed();
  for (int ranks : kSizes) {
    for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16, DType::kI64}) {
      for (int64_t count : {0, 1, 2, 5, 33, 700}) {
        for (CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter}) {
          CollectiveCase shape = {.kind = kind, .ranks = ranks, .dtype = dtype, .count = count};
          shape.reduction = count == 5 ? Reduction::kMax : Reduction::kSum;
          shape.in_place = count % 2 == 1;
          const bool power = (ranks & (ranks - 1)) == 0;
          const int others = kind == CollectiveKind::kAllReduce ? 1 + 2 * power : power;
          EXPECT_EQ(RunByAll(shape, seed++), 1 + others);
        }
      }
    }
  }
}

TEST(AlgorithmsTest, PartsOfManyKinds) {
  uint64_t seed = TestSeed();
  for (int ranks : kSizes) {
    for (CollectiveKind kind :
         {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll}) {
      for (int64_t count : {0, 1, 6, 50}) {
        CollectiveCase shape = {
            .kind = kind, .ranks = ranks, .dtype = DType::kBF16, .count = count};
        RunByAll(shape, seed++);
        shape.uneven = true;
        RunByAll(shape, seed++);
        shape.uneven = false;
        shape.rows = 3;
        RunByAll(shape, seed++);
      }
    }
  }
}

TEST(AlgorithmsTest, BroadcastExchangeBarrier) {
  uint64_t seed = TestSeed();
  for (int ranks : kSizes) {
    for (int other = 0; other < ranks; ++other) {
      RunByAll({.kind = CollectiveKind::kBroadcast, .ranks = ranks, .count = 17, .root = other},
               seed++);
      RunByAll({.kind = CollectiveKind::kExchange, .ranks = ranks, .count = 17, .shift = other},
               seed++);
    }
    RunByAll({.kind = CollectiveKind::kBarrier, .ranks = ranks}, seed++);
  }
}

// Longer than one piece: 3 ranks receive 2 x 4 MiB and more.
TEST(AlgorithmsTest, LongReductionsGoInPieces) {
  struct {
    int64_t rows, count, pieces;
  } const kCases[] = {{1, 1'200'001, 3}, {3, 400'001, 3}, {7, 200'001, 4}, {2, 700'001, 4}};
  for (const auto& c : kCases) {
    EXPECT_EQ(PairwisePieces(c.rows, c.count, DType::kF32, 3), c.pieces) << c.rows;
    RunByAll({.kind = CollectiveKind::kReduceScatter, .ranks = 3, .count = c.count, .rows = c.rows},
             1);
  }
  RunByAll({.kind = CollectiveKind::kAllReduce, .ranks = 2, .count = 2'500'001}, 2);
  RunByAll({.kind = CollectiveKind::kReduceScatter, .ranks = 3, .count = 1'000'000, .uneven = true},
           3);
}

}  // namespace
}  // namespace colossus
