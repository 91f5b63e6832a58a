#include "trainers/lib/data/sampler.h"

#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::vector<int64_t>> Draw(Sampler& sampler, int updates) {
  std::vector<std::vector<int64_t>> all;
  for (int i = 0; i < updates; ++i) all.push_back(sampler.Next().rows);
  return all;
}

TEST(SamplerTest, C1ResumeInsideEpochTwo) {
  const SamplerOptions options = {.rows = 10, .global_batch = 2, .seed = 1};
  ASSERT_OK_AND_ASSIGN(Sampler whole, Sampler::Make(options));
  const std::vector<std::vector<int64_t>> uninterrupted = Draw(whole, 10);

  ASSERT_OK_AND_ASSIGN(Sampler first, Sampler::Make(options));
  Draw(first, 7);
  const DataPosition saved = first.position();
  EXPECT_EQ(saved, (DataPosition{1, 4}));
  ASSERT_OK_AND_ASSIGN(Sampler resumed, Sampler::Make(options));
  ASSERT_OK(resumed.Seek(saved));
  EXPECT_THAT(Draw(resumed, 3), ElementsAre(uninterrupted[7], uninterrupted[8], uninterrupted[9]));

  std::set<int64_t> epoch_two;
  for (int step = 5; step < 10; ++step) {
    epoch_two.insert(uninterrupted[step].begin(), uninterrupted[step].end());
  }
  EXPECT_EQ(epoch_two.size(), 10u) << "each id once";
  EXPECT_NE(std::vector<std::vector<int64_t>>(uninterrupted.begin(), uninterrupted.begin() + 5),
            std::vector<std::vector<int64_t>>(uninterrupted.begin() + 5, uninterrupted.end()));
}

TEST(SamplerTest, C1ResumeWithAccumulation) {
  // Micro-batch 2, accumulation 2: the position counts rows, not micro-batches.
  ASSERT_OK_AND_ASSIGN(Sampler sampler, Sampler::Make({.rows = 20, .global_batch = 4, .seed = 5}));
  Draw(sampler, 3);
  EXPECT_EQ(sampler.position(), (DataPosition{0, 12}));
  const int64_t next = sampler.RowAt(0, 12);
  const UpdateRows update = sampler.Next();
  EXPECT_EQ(update.rows[0], next);
  EXPECT_EQ(update.start, (DataPosition{0, 12}));
}

TEST(SamplerTest, A1LastWindowOfAnEpochIsShort) {
  ASSERT_OK_AND_ASSIGN(Sampler sampler,
                       Sampler::Make({.rows = 10, .global_batch = 8, .shuffled = false}));
  EXPECT_EQ(sampler.updates_per_epoch(), 2);
  const UpdateRows full = sampler.Next();
  EXPECT_EQ(full.MicroBatches(2), 4);
  EXPECT_THAT(full.MicroBatch(3, 2), ElementsAre(6, 7));
  const UpdateRows last = sampler.Next();
  EXPECT_THAT(last.rows, ElementsAre(8, 9));
  EXPECT_EQ(last.MicroBatches(2), 1);
  EXPECT_EQ(last.MicroBatches(3), 1);
  EXPECT_THAT(last.MicroBatch(0, 3), ElementsAre(8, 9));
  EXPECT_EQ(sampler.position(), (DataPosition{1, 0}));
}

// 10 samples on 4 data-parallel ranks: 3 updates of 4, 4 and 2 rows, or 2 without the tail.
TEST(SamplerTest, D2CountsOfUpdates) {
  ASSERT_OK_AND_ASSIGN(Sampler keep, Sampler::Make({.rows = 10, .global_batch = 4}));
  EXPECT_EQ(keep.updates_per_epoch(), 3);
  EXPECT_EQ(Draw(keep, 3)[2].size(), 2u);
  ASSERT_OK_AND_ASSIGN(Sampler drop,
                       Sampler::Make({.rows = 10, .global_batch = 4, .drop_tail = true}));
  EXPECT_EQ(drop.updates_per_epoch(), 2);
  Draw(drop, 2);
  EXPECT_EQ(drop.position(), (DataPosition{1, 0}));
  ASSERT_OK_AND_ASSIGN(Sampler large, Sampler::Make({.rows = 858, .global_batch = 32}));
  EXPECT_EQ(large.updates_per_epoch(), 27);
}

TEST(SamplerTest, EveryEpochIsAPermutation) {
  for (const int64_t rows : {1, 2, 3, 17, 1000}) {
    ASSERT_OK_AND_ASSIGN(Sampler sampler, Sampler::Make({.rows = rows, .global_batch = 3}));
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::set<int64_t> seen;
      for (int64_t i = 0; i < rows; ++i) seen.insert(sampler.RowAt(epoch, i));
      EXPECT_EQ(static_cast<int64_t>(seen.size()), rows);
      EXPECT_EQ(*seen.begin(), 0);
      EXPECT_EQ(*seen.rbegin(), rows - 1);
    }
  }
}

TEST(SamplerTest, OrderDependsOnSeed) {
  ASSERT_OK_AND_ASSIGN(Sampler a, Sampler::Make({.rows = 100, .global_batch = 100, .seed = 1}));
  ASSERT_OK_AND_ASSIGN(Sampler b, Sampler::Make({.rows = 100, .global_batch = 100, .seed = 2}));
  ASSERT_OK_AND_ASSIGN(Sampler c, Sampler::Make({.rows = 100, .global_batch = 10, .seed = 1}));
  const std::vector<int64_t> order = a.Next().rows;
  EXPECT_NE(order, b.Next().rows);
  EXPECT_EQ(order[10], c.RowAt(0, 10)) << "the batch size does not change the order";
}

TEST(SamplerTest, Refusals) {
  EXPECT_THAT(Sampler::Make({.rows = 0}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no row")));
  EXPECT_THAT(Sampler::Make({.rows = 3, .global_batch = 4, .drop_tail = true}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("data.tail")));
  ASSERT_OK_AND_ASSIGN(Sampler sampler, Sampler::Make({.rows = 10, .global_batch = 4}));
  for (const DataPosition& bad :
       {DataPosition{0, 3}, DataPosition{0, 12}, DataPosition{-1, 0}, DataPosition{0, -4}}) {
    EXPECT_THAT(sampler.Seek(bad),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("starts no update")));
  }
  EXPECT_EQ(sampler.position(), DataPosition{});
}

}  // namespace
}  // namespace colossus
