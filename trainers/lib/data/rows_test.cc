#include "trainers/lib/data/rows.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shardformer/tokenizer/bytes.h"
#include "tensor/ops/loss.h"
#include "trainers/lib/data/token_store.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;

constexpr int32_t kNone = kIgnoreLabel;

// Documents of these lengths with the ids 0, 1, 2, ... throughout; the end id is the vocabulary's
// last, which never appears, so that every id tells where it stood.
std::shared_ptr<const TokenStore> CountingStore(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> ends;
  int64_t total = 0;
  for (const int64_t length : lengths) ends.push_back(total += length);
  std::vector<int32_t> ids(static_cast<size_t>(total));
  std::iota(ids.begin(), ids.end(), 0);
  return std::make_shared<const TokenStore>(
      TokenStore::FromIds(ids, ends, total + 1, static_cast<int32_t>(total)));
}

WindowRows Windows(std::shared_ptr<const TokenStore> store, int64_t length, Packing packing) {
  return WindowRows(store, HoldOut(*store, 0).train, length, packing);
}

Batch AllRows(const RowSource& source, int64_t padded_rows = 0) {
  std::vector<int64_t> ids(static_cast<size_t>(source.rows()));
  std::iota(ids.begin(), ids.end(), 0);
  Batch batch;
  FillBatch(source, ids, std::max(padded_rows, source.rows()), &batch);
  return batch;
}

TEST(RowsTest, A12PackedDocumentsRestartPositions) {
  const Batch batch = AllRows(Windows(CountingStore({3, 5}), 8, Packing::kBorders));
  ASSERT_EQ(batch.rows, 1);
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 2, 0, 1, 2, 3, 4));
  EXPECT_THAT(batch.segments, ElementsAre(0, 0, 0, 1, 1, 1, 1, 1));
  EXPECT_THAT(batch.labels, ElementsAre(1, 2, kNone, 4, 5, 6, 7, kNone));
  EXPECT_EQ(batch.counting_tokens, 6);
  int visible = 0;  // causal pairs within a segment
  for (int q = 0; q < 8; ++q) {
    for (int k = 0; k <= q; ++k) visible += batch.segments[q] == batch.segments[k];
  }
  EXPECT_EQ(visible, 21);
}

TEST(RowsTest, JoinedDocumentsPredictAcrossBorders) {
  const Batch batch = AllRows(Windows(CountingStore({3, 5}), 8, Packing::kJoin));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(batch.segments, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(batch.labels, ElementsAre(1, 2, 3, 4, 5, 6, 7, kNone));
}

// Padding is known by length: the end id is also the padding id, and its one real target counts.
TEST(RowsTest, F4PaddingIdEqualToEndId) {
  const auto store = std::make_shared<const TokenStore>(TokenStore::FromIds({5, 6, 2}, {3}, 7, 2));
  for (const Packing packing : {Packing::kJoin, Packing::kBorders}) {
    const Batch batch = AllRows(Windows(store, 5, packing));
    EXPECT_THAT(batch.ids, ElementsAre(5, 6, 2, 2, 2));
    EXPECT_THAT(batch.labels, ElementsAre(6, 2, kNone, kNone, kNone));
    EXPECT_THAT(batch.segments, ElementsAre(0, 0, 0, 1, 1));
    EXPECT_EQ(batch.counting_tokens, 2);
  }
}

TEST(RowsTest, F5WindowsLoseNoTarget) {
  const Batch batch = AllRows(Windows(CountingStore({10}), 4, Packing::kJoin));
  ASSERT_EQ(batch.rows, 3);
  EXPECT_THAT(batch.labels, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, kNone, kNone, kNone));
  EXPECT_THAT(std::vector<int32_t>(batch.ids.begin(), batch.ids.begin() + 10),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

// For many shapes: each id but the first of the stream (join) or of its document (borders) is a
// target exactly once, right after the id before it, and a segment never holds two documents.
TEST(RowsTest, EveryTargetOnceForAllShapes) {
  const std::vector<std::vector<int64_t>> shapes = {
      {2}, {7}, {1, 1, 1}, {3, 5}, {9, 1, 4, 2}, {1, 8}, {4, 4, 4}, {16, 2, 3, 17}};
  for (const std::vector<int64_t>& lengths : shapes) {
    const auto store = CountingStore(lengths);
    for (int64_t length = 1; length <= 20; ++length) {
      for (const Packing packing : {Packing::kJoin, Packing::kBorders}) {
        SCOPED_TRACE(testing::Message() << testing::PrintToString(lengths) << " at " << length);
        const WindowRows rows = Windows(store, length, packing);
        EXPECT_EQ(rows.rows(), (store->size() - 1 + length - 1) / length);
        std::set<int32_t> expected;
        for (int64_t d = 0; d < store->documents(); ++d) {
          const bool first_counts = packing == Packing::kJoin && d > 0;
          for (int64_t i = store->begin(d) + (first_counts ? 0 : 1); i < store->end(d); ++i) {
            expected.insert(static_cast<int32_t>(i));
          }
        }
        const Batch batch = AllRows(rows);
        std::multiset<int32_t> targets;
        for (size_t i = 0; i < batch.labels.size(); ++i) {
          if (batch.labels[i] == kNone) continue;
          targets.insert(batch.labels[i]);
          EXPECT_EQ(batch.labels[i], batch.ids[i] + 1);
        }
        EXPECT_EQ(targets, std::multiset<int32_t>(expected.begin(), expected.end()));
        EXPECT_EQ(batch.counting_tokens, static_cast<int64_t>(expected.size()));
      }
    }
  }
}

TEST(RowsTest, DocumentsLongerThanARowGoOnInTheNext) {
  const Batch batch = AllRows(Windows(CountingStore({6, 3}), 4, Packing::kBorders));
  EXPECT_THAT(batch.ids, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(batch.labels, ElementsAre(1, 2, 3, 4, 5, kNone, 7, 8));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 2, 3, 0, 1, 0, 1));
  EXPECT_THAT(batch.segments, ElementsAre(0, 0, 0, 0, 0, 0, 1, 1));
}

TEST(RowsTest, PaddingRowsCountNothing) {
  const Batch batch = AllRows(Windows(CountingStore({3}), 2, Packing::kJoin), /*padded_rows=*/3);
  EXPECT_THAT(batch.row_ids, ElementsAre(0, -1, -1));
  EXPECT_THAT(batch.labels, ElementsAre(1, 2, kNone, kNone, kNone, kNone));
  EXPECT_EQ(batch.counting_tokens, 2);
}

TEST(RowsTest, TextBytesAreThoseOfTheDocuments) {
  const BytesTokenizer tokenizer;
  const std::vector<int32_t> bytes = TokenBytes(tokenizer);
  ASSERT_EQ(bytes.size(), 257u);
  // "ab", "c" and an end token each, which is no text: 3 bytes, however rows are cut.
  const auto store = std::make_shared<const TokenStore>(
      TokenStore::FromIds({97, 98, 256, 99, 256}, {3, 5}, 257, 256));
  for (const Packing packing : {Packing::kJoin, Packing::kBorders}) {
    EXPECT_EQ(Windows(store, 8, packing).TextBytes(bytes), 3);
    EXPECT_EQ(Windows(store, 2, packing).TextBytes(bytes), 3);
  }
  EXPECT_EQ(Windows(store, 8, Packing::kJoin).TextBytes({}), 0);
}

int64_t Total(const std::vector<TokenRange>& ranges) {
  int64_t total = 0;
  for (const TokenRange& range : ranges) total += range.end - range.begin;
  return total;
}

TEST(HoldOutTest, DocumentsAreSplitOnceAndForAll) {
  const auto store = CountingStore(std::vector<int64_t>(100, 3));
  const DataSplit split = HoldOut(*store, 0.05);
  EXPECT_EQ(split.validation.size(), 5u);
  EXPECT_EQ(split.train.size(), 95u);
  std::set<int64_t> begins;
  for (const TokenRange& range : split.train) begins.insert(range.begin);
  for (const TokenRange& range : split.validation) begins.insert(range.begin);
  EXPECT_EQ(begins.size(), 100u);
  const auto less = [](const TokenRange& a, const TokenRange& b) { return a.begin < b.begin; };
  EXPECT_TRUE(std::is_sorted(split.train.begin(), split.train.end(), less));
  EXPECT_NE(split.validation[0].begin, 95 * 3) << "not simply the last ones";
  // The choice is written down: a change of it would make validation losses of versions differ.
  std::vector<int64_t> held;
  for (const TokenRange& range : split.validation) held.push_back(range.begin / 3);
  EXPECT_THAT(held, ElementsAre(28, 36, 41, 86, 97));
  EXPECT_TRUE(HoldOut(*store, 0).validation.empty());
}

TEST(HoldOutTest, FewDocumentsGiveTheirLastIds) {
  const auto store = CountingStore({90, 10});
  const DataSplit split = HoldOut(*store, 0.2);
  ASSERT_EQ(split.train.size(), 1u);
  EXPECT_EQ(split.train[0].end, 80);
  ASSERT_EQ(split.validation.size(), 2u);
  EXPECT_EQ(split.validation[0].begin, 80);
  EXPECT_EQ(Total(split.validation), 20);
}

TEST(SyntheticRowsTest, FunctionOfSeedAndRow) {
  const SyntheticRows rows(/*seed=*/3, /*vocabulary=*/50, /*sequence_length=*/16);
  Batch a, b;
  FillBatch(rows, {7, 8}, 2, &a);
  FillBatch(rows, {8}, 1, &b);
  EXPECT_EQ(std::vector<int32_t>(a.ids.begin() + 16, a.ids.end()), b.ids);
  EXPECT_EQ(a.counting_tokens, 32);
  for (size_t i = 0; i + 1 < 16; ++i) EXPECT_EQ(a.labels[i], a.ids[i + 1]);
  for (const int32_t id : a.ids) EXPECT_TRUE(id >= 0 && id < 50);
  FillBatch(SyntheticRows(4, 50, 16), {7, 8}, 2, &b);
  EXPECT_NE(a.ids, b.ids);
}

}  // namespace
}  // namespace colossus
