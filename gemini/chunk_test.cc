#include "gemini/chunk.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

// Protects: places, padding and shards, by hand: 100 -> 128 for the next tensor, 2 shards of whole
// blocks of 8.
TEST(ChunkTest, Example) {
  ASSERT_OK_AND_ASSIGN(
      ChunkLayout layout,
      ChunkLayout::Make({{"a", 100, "x"}, {"b", 3, "y"}, {"c", 7, "x"}, {"none", 0, "y"}},
                        {.shards = 2, .alignment = 64, .block = 8}));
  EXPECT_EQ(ToText(layout),
            "2 chunks for 2 shards: 208 elements, 47.12 % of them padding; the largest has 144\n"
            "chunk 0 x 144 elements, 107 used\n"
            "  a [0,100)\n"
            "  c [128,135)\n"
            "chunk 1 y 64 elements, 3 used\n"
            "  b [0,3)\n"
            "  none [64,64)\n");
  EXPECT_EQ(layout.Shard(0, 1), (ElementRange{72, 72}));
  EXPECT_EQ(layout.Find("c")->first, 128);
  EXPECT_EQ(layout.Find("d"), nullptr);
  const std::vector<ChunkPiece> pieces = layout.Pieces("a", {70, 5});
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].tensor_first, 70);
  EXPECT_EQ(pieces[0].shard, 0);
  EXPECT_EQ(pieces[0].shard_first, 70);
  EXPECT_EQ(pieces[0].count, 2);
  EXPECT_EQ(pieces[1].tensor_first, 72);
  EXPECT_EQ(pieces[1].shard, 1);
  EXPECT_EQ(pieces[1].shard_first, 0);
  EXPECT_EQ(pieces[1].count, 3);
  EXPECT_TRUE(layout.Pieces("none").empty());
}

// Protects: the size is searched. A chunk of 128 holds three tensors of 40 and wastes 8 elements;
// with 119 and less it holds two, which are whole blocks.
TEST(ChunkTest, SizeWithLeastPadding) {
  std::vector<ChunkTensor> tensors;
  for (int i = 0; i < 6; ++i) tensors.push_back({absl::StrCat("t", i), 40, "g"});
  ASSERT_OK_AND_ASSIGN(
      ChunkLayout layout,
      ChunkLayout::Make(tensors, {.shards = 1, .alignment = 1, .block = 16, .max_elements = 128}));
  EXPECT_EQ(layout.padding(), 0);
  EXPECT_EQ(layout.largest(), 112);
  EXPECT_EQ(layout.chunks().size(), 3u);
}

// Protects: a tensor above the largest size has a chunk of its own, not a cut.
TEST(ChunkTest, LargeTensor) {
  ASSERT_OK_AND_ASSIGN(
      ChunkLayout layout,
      ChunkLayout::Make({{"a", 8, "g"}, {"large", 1000, "g"}, {"b", 8, "g"}},
                        {.shards = 1, .alignment = 8, .block = 8, .max_elements = 64}));
  ASSERT_EQ(layout.chunks().size(), 3u);
  EXPECT_EQ(layout.Find("large")->chunk, 1);
  EXPECT_EQ(layout.padding(), 0);
}

TEST(ChunkTest, Nothing) {
  ASSERT_OK_AND_ASSIGN(ChunkLayout layout, ChunkLayout::Make({}, {}));
  EXPECT_TRUE(layout.chunks().empty());
  EXPECT_EQ(Summary(layout),
            "0 chunks for 1 shards: 0 elements, 0.00 % of them padding; the largest has 0");
}

TEST(ChunkTest, Refusals) {
  const struct {
    const char* message;
    std::vector<ChunkTensor> tensors;
    ChunkOptions options;
  } refusals[] = {
      {"shards is 0", {}, {.shards = 0}},
      {"alignment is -1", {}, {.alignment = -1}},
      {"block is 0", {}, {.block = 0}},
      {"max_elements is 0", {}, {.max_elements = 0}},
      {"'a' twice", {{"a", 1, "x"}, {"a", 1, "y"}}, {}},
      {"'a' has -1 elements", {{"a", -1, "x"}}, {}},
      {"'b' has 4611686018427387904", {{"a", 1, ""}, {"b", int64_t{1} << 62, ""}}, {}},
  };
  for (const auto& r : refusals) {
    EXPECT_THAT(ChunkLayout::Make(r.tensors, r.options).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(r.message)));
  }
}

struct RandomLayout {
  std::vector<ChunkTensor> tensors;
  ChunkOptions options;
  ChunkLayout layout;
};

RandomLayout MakeRandom(uint64_t seed) {
  std::mt19937_64 random(seed);
  auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  RandomLayout made;
  made.options.shards = 1 + static_cast<int>(below(8));
  made.options.alignment = int64_t{1} << below(7);
  made.options.block = int64_t{1} << below(8);
  made.options.max_elements = 1 + below(20000);
  const int64_t groups = 1 + below(5);
  const int64_t count = below(40);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t elements = below(4) == 0 ? below(5) : below(3000);
    made.tensors.push_back({absl::StrCat("t", i), elements, absl::StrCat("g", below(groups))});
  }
  absl::StatusOr<ChunkLayout> layout = ChunkLayout::Make(made.tensors, made.options);
  EXPECT_OK(layout.status());
  made.layout = *std::move(layout);
  return made;
}

// Protects: whatever the tensors, none overlaps another, each is aligned and in a chunk of its
// group, and shards are whole blocks.
TEST(ChunkTest, RandomLayoutsAreSound) {
  const uint64_t seed = TestSeed();
  for (uint64_t g = seed; g < seed + 300; ++g) {
    const RandomLayout made = MakeRandom(g);
    const ChunkLayout& layout = made.layout;
    int64_t used = 0, all = 0;
    for (const Chunk& chunk : layout.chunks()) {
      EXPECT_EQ(chunk.elements % (made.options.shards * made.options.block), 0) << g;
      int64_t end = 0, filled = 0;
      for (const ChunkSegment& segment : chunk.segments) {
        EXPECT_GE(segment.first, end) << g;
        EXPECT_EQ(segment.first % made.options.alignment, 0) << g;
        EXPECT_EQ(layout.Find(segment.name), &segment) << g;
        end = segment.first + segment.elements;
        filled += segment.elements > 0;
      }
      EXPECT_LE(end, chunk.elements) << g;
      EXPECT_LT(chunk.elements - end, made.options.shards * made.options.block) << g;
      // A chunk is above the largest size only for one tensor's sake.
      EXPECT_TRUE(end <= layout.largest() || filled == 1) << g;
      all += chunk.elements;
    }
    for (const ChunkTensor& tensor : made.tensors) {
      const ChunkSegment* segment = layout.Find(tensor.name);
      ASSERT_NE(segment, nullptr);
      EXPECT_EQ(segment->elements, tensor.elements);
      EXPECT_EQ(layout.chunks()[segment->chunk].group, tensor.group);
      used += tensor.elements;
    }
    EXPECT_EQ(layout.elements(), all);
    EXPECT_EQ(layout.padding(), all - used);
  }
}

// Protects: tables both ways: every element of every tensor is in exactly one shard, where the
// table says; and what a shard holds is what the tensors' pieces say.
TEST(ChunkTest, PiecesAndHeldAreInverse) {
  const uint64_t seed = TestSeed();
  for (uint64_t g = seed; g < seed + 100; ++g) {
    const RandomLayout made = MakeRandom(g);
    const ChunkLayout& layout = made.layout;
    std::map<std::pair<int, int64_t>, std::pair<std::string, int64_t>> holds;  // by chunk, element
    std::mt19937_64 random(g);
    for (const ChunkTensor& tensor : made.tensors) {
      int64_t next = tensor.elements == 0
                         ? 0
                         : static_cast<int64_t>(random() % static_cast<uint64_t>(tensor.elements));
      const int64_t start = next;
      for (const ElementRange range :
           {ElementRange{start, tensor.elements - start}, ElementRange{0, start}}) {
        next = range.first;
        for (const ChunkPiece& piece : layout.Pieces(tensor.name, range)) {
          EXPECT_EQ(piece.tensor, tensor.name);
          EXPECT_EQ(piece.tensor_first, next) << g;
          EXPECT_GT(piece.count, 0) << g;
          const ElementRange shard = layout.Shard(piece.chunk, piece.shard);
          EXPECT_EQ(piece.chunk_first, shard.first + piece.shard_first) << g;
          EXPECT_LE(piece.shard_first + piece.count, shard.count) << g;
          next += piece.count;
          for (int64_t i = 0; i < piece.count; ++i) {
            EXPECT_TRUE(holds
                            .insert({{piece.chunk, piece.chunk_first + i},
                                     {tensor.name, piece.tensor_first + i}})
                            .second)
                << g;
          }
        }
        EXPECT_EQ(next, range.end()) << g;
      }
    }
    size_t held = 0;
    for (int c = 0; c < static_cast<int>(layout.chunks().size()); ++c) {
      for (int s = 0; s < layout.shards(); ++s) {
        for (const ChunkPiece& piece : layout.Held(c, layout.Shard(c, s))) {
          EXPECT_EQ(piece.shard, s) << g;
          for (int64_t i = 0; i < piece.count; ++i) {
            const std::pair<std::string, int64_t> wanted(piece.tensor, piece.tensor_first + i);
            EXPECT_EQ(holds.at({c, piece.chunk_first + i}), wanted) << g;
          }
          held += static_cast<size_t>(piece.count);
        }
      }
    }
    EXPECT_EQ(held, holds.size()) << g;
  }
}

}  // namespace
}  // namespace colossus
