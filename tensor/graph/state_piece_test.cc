#include "tensor/graph/state_piece.h"

#include <algorithm>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Stretch = std::tuple<int64_t, int64_t, int64_t>;

std::vector<Stretch> RunsOf(const StatePiece& a, const StatePiece& b) {
  std::vector<Stretch> runs;
  ForEachRun(a, b, [&](int64_t at_a, int64_t at_b, int64_t count) {
    runs.push_back({at_a, at_b, count});
  });
  return runs;
}

// The global row-major index of each element of a piece, by the definition.
std::vector<int64_t> Elements(const StatePiece& piece, const Dims& global) {
  std::vector<int64_t> elements;
  const Dims strides = RowMajorStrides(global), inner = RowMajorStrides(piece.extent);
  for (int64_t i = piece.first; i < piece.first + piece.count; ++i) {
    int64_t index = 0;
    for (size_t d = 0; d < global.size(); ++d) {
      index += (piece.origin[d] + i / inner[d] % piece.extent[d]) * strides[d];
    }
    elements.push_back(index);
  }
  return elements;
}

TEST(StatePieceTest, KnownRuns) {
  const StatePiece whole = WholePiece({3, 4});
  EXPECT_THAT(RunsOf(whole, whole), ElementsAre(Stretch{0, 0, 12}));
  const StatePiece columns = {{0, 2}, {3, 2}, 0, 6};
  EXPECT_THAT(RunsOf(whole, columns),
              ElementsAre(Stretch{2, 0, 2}, Stretch{6, 2, 2}, Stretch{10, 4, 2}));
  EXPECT_THAT(RunsOf(whole, PartOf(columns, 1, 3)),
              ElementsAre(Stretch{3, 0, 1}, Stretch{6, 1, 2}));
  EXPECT_THAT(RunsOf(WholePiece({}), WholePiece({})), ElementsAre(Stretch{0, 0, 1}));
  EXPECT_THAT(RunsOf(WholePiece({0, 3}), WholePiece({0, 3})), ElementsAre());
  EXPECT_THAT(RunsOf(columns, {{0, 0}, {3, 2}, 0, 6}), ElementsAre());
}

TEST(StatePieceTest, Texts) {
  EXPECT_EQ(ToString(StatePiece{{0, 4}, {10, 4}, 0, 40}), "[0,4]+[10,4]");
  EXPECT_EQ(ToString(StatePiece{{0, 4}, {10, 4}, 8, 16}), "[0,4]+[10,4]{8,16}");
}

TEST(StatePieceTest, PiecesOutsideAreRefused) {
  const Dims global = {4, 6};
  EXPECT_OK(CheckPiece(WholePiece(global), global));
  EXPECT_OK(CheckPiece({{4, 6}, {0, 0}, 0, 0}, global));
  constexpr int64_t kHuge = int64_t{1} << 62;
  for (const StatePiece& piece : std::vector<StatePiece>{
           {{0}, {4}, 0, 4},
           {{0, 0}, {4}, 0, 4},
           {{1, 0}, {4, 6}, 0, 1},
           {{-1, 0}, {4, 6}, 0, 1},
           {{0, 0}, {4, 7}, 0, 1},
           {{0, 0}, {4, -1}, 0, 0},
           {{0, 0}, {4, 6}, 1, 24},
           {{0, 0}, {4, 6}, -1, 2},
           {{0, 0}, {4, 6}, 0, -1},
           {{kHuge, 0}, {kHuge, 6}, 0, 1},
           {{0, 0}, {kHuge, kHuge}, 0, 1},
           {{0, 0}, {4, 6}, kHuge, kHuge},
       }) {
    EXPECT_THAT(CheckPiece(piece, global),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is not inside [4,6]")));
  }
}

TEST(StatePieceTest, Cover) {
  const Dims global = {4, 6};
  const StatePiece left = {{0, 0}, {4, 3}, 0, 12}, right = {{0, 3}, {4, 3}, 0, 12};
  EXPECT_OK(CheckCover({left, right}, global));
  EXPECT_OK(
      CheckCover({right, PartOf(left, 5, 7), PartOf(left, 0, 5), PartOf(left, 5, 0)}, global));
  EXPECT_OK(CheckCover({WholePiece({})}, {}));
  EXPECT_OK(CheckCover({}, {0, 3}));
  const auto refused = [&](std::vector<StatePiece> pieces, const char* why) {
    EXPECT_THAT(CheckCover(pieces, global),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  refused({left}, "leave elements out");
  refused({left, PartOf(right, 0, 11)}, "leave elements out");
  refused({left, right, right}, "overlap");
  refused({left, WholePiece(global)}, "overlap");
  refused({right, PartOf(left, 4, 8), PartOf(left, 0, 5)}, "overlap");
}

// Rank 3 of 4 of a vocabulary of 10 that is padded to 12, and its shards.
TEST(StatePieceTest, InsideOfATensorThatIsPadded) {
  const StatePiece rows = {{9, 0}, {3, 4}, 0, 12};
  EXPECT_EQ(InsideOf(rows, {10, 4}), (StatePiece{{9, 0}, {1, 4}, 0, 4}));
  EXPECT_EQ(InsideOf(PartOf(rows, 3, 6), {10, 4}), (StatePiece{{9, 0}, {1, 4}, 3, 1}));
  EXPECT_EQ(InsideOf(PartOf(rows, 4, 8), {10, 4}).count, 0);
  const StatePiece columns = {{0, 9}, {2, 3}, 0, 6};
  EXPECT_EQ(InsideOf(columns, {2, 10}), (StatePiece{{0, 9}, {2, 1}, 0, 2}));
  EXPECT_EQ(InsideOf(PartOf(columns, 1, 4), {2, 10}), (StatePiece{{0, 9}, {2, 1}, 1, 1}));
  EXPECT_EQ(InsideOf({{12, 0}, {3, 4}, 0, 12}, {10, 4}).count, 0);
  EXPECT_EQ(InsideOf(WholePiece({10, 4}), {10, 4}), WholePiece({10, 4}));
}

int64_t Draw(std::mt19937& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

StatePiece RandomPiece(std::mt19937& random, const Dims& global) {
  StatePiece piece;
  for (const int64_t dim : global) {
    const int64_t a = Draw(random, 0, dim), b = Draw(random, 0, dim);
    const bool whole = Draw(random, 0, 2) == 0;
    piece.origin.push_back(whole ? 0 : std::min(a, b));
    piece.extent.push_back(whole ? dim : std::max(a, b) - std::min(a, b));
  }
  const int64_t elements = ElementCount(piece.extent);
  const int64_t a = Draw(random, 0, elements), b = Draw(random, 0, elements);
  const bool box = Draw(random, 0, 1) == 0;
  piece.first = box ? 0 : std::min(a, b);
  piece.count = box ? elements : std::max(a, b) - std::min(a, b);
  return piece;
}

// The runs of random pieces are the elements that both have, each once, ascending, and as long as
// the boxes allow.
TEST(StatePieceTest, RunsAreTheCommonElements) {
  std::mt19937 random(1);
  for (int seed = 0; seed < 2000; ++seed) {
    Dims global;
    for (int64_t d = Draw(random, 0, 4); d > 0; --d) global.push_back(Draw(random, 1, 7));
    const StatePiece a = RandomPiece(random, global), b = RandomPiece(random, global);
    SCOPED_TRACE(
        absl::StrCat(seed, ": ", ToString(a), " and ", ToString(b), " of ", DimsToString(global)));
    ASSERT_OK(CheckPiece(a, global));
    const std::vector<int64_t> in_a = Elements(a, global), in_b = Elements(b, global);
    int64_t met = 0, end_a = 0, end_b = 0;
    for (const auto& [at_a, at_b, count] : RunsOf(a, b)) {
      ASSERT_GT(count, 0);
      ASSERT_GE(at_a, end_a);
      ASSERT_GE(at_b, end_b);
      for (int64_t i = 0; i < count; ++i) ASSERT_EQ(in_a.at(at_a + i), in_b.at(at_b + i));
      met += count;
      end_a = at_a + count;
      end_b = at_b + count;
    }
    int64_t common = 0;
    for (const int64_t element : in_a) {
      common += std::find(in_b.begin(), in_b.end(), element) != in_b.end();
    }
    ASSERT_EQ(met, common);
  }
}

}  // namespace
}  // namespace colossus
