#include <string>
#include <thread>
#include <vector>

#include "base/testing/status_matchers.h"
#include "collectives/watch/operation_record.h"
#include "collectives/watch/rank_table.h"
#include "collectives/watch/shared_value.h"
#include "collectives/watch/stall.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Collective Sum(int64_t count, const std::string& site) {
  return {.kind = CollectiveKind::kAllReduce, .count = count, .site = site};
}

OperationRecord Record(const Collective& op, int rank, uint64_t turn = 1) {
  return RecordOf(op, "tensor", 7, rank, 2, turn);
}

TEST(SharedValueTest, ReadersSeeWholeValues) {
  struct Pair {
    int64_t a = 0, b = 0;
    char rest[200] = {};
  };
  SharedValue<Pair> value;
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int64_t i = 0; i < 20000; ++i) value.Store({.a = i, .b = -i});
    done = true;
  });
  while (!done) {
    const Pair seen = value.Load();
    EXPECT_EQ(seen.a, -seen.b);
  }
  writer.join();
  EXPECT_EQ(value.Load().a, 19999);
}

TEST(OperationRecordTest, TellsTheOperation) {
  EXPECT_EQ(Describe(Record(Sum(4, "h.3/mlp"), 0, 17)),
            "operation 17 of group tensor, all_reduce sum f32, 4 elements, at h.3/mlp");
  EXPECT_EQ(Describe(OperationRecord{}), "nothing");
  // Of long texts, the end of the site and the start of the name are kept.
  const OperationRecord longer =
      RecordOf(Sum(4, std::string(200, 'x') + "end"), std::string(200, 'g'), 7, 0, 2, 1);
  EXPECT_THAT(Describe(longer), AllOf(HasSubstr("xend"), Not(HasSubstr(std::string(90, 'x')))));
}

TEST(OperationRecordTest, FindsWhatDiffers) {
  const OperationRecord mine = Record(Sum(4, "a"), 0);
  EXPECT_EQ(MismatchOf(mine, Record(Sum(4, "a"), 1)), "");
  EXPECT_EQ(MismatchOf(mine, Record(Sum(8, "a"), 1)), "element counts");
  EXPECT_EQ(MismatchOf(mine, Record(Sum(4, "b"), 1)), "call sites");
  EXPECT_EQ(MismatchOf(mine, Record(Sum(4, "a"), 1, 2)), "operation numbers");
  Collective uneven = {.kind = CollectiveKind::kAllGather, .counts = {1, 3}};
  const OperationRecord parts = Record(uneven, 0);
  EXPECT_EQ(MismatchOf(parts, Record(uneven, 1)), "");
  uneven.counts = {2, 2};
  EXPECT_EQ(MismatchOf(parts, Record(uneven, 1)), "counts");
}

class StallTest : public ::testing::Test {
 protected:
  StallTest() : rows_(3), table_(&head_, rows_.data(), 3) {
    for (int r = 0; r < 3; ++r) table_.row(r).SetLife(RankLife::kRunning);
    table_.row(0).BeginWait(Record(Sum(4, "here"), 0, 5));
  }
  // Whether rank 0's waiting ends within `seconds`, asked every 0.1 s; others that wait ask too,
  // but for the one that is stopped.
  bool EndsWithin(double seconds) {
    for (double end = clock_.Seconds() + seconds; clock_.Seconds() < end; clock_.AdvanceBy(0.1)) {
      for (int r = 1; r < 3; ++r) {
        if (table_.row(r).waits() && r != stopped_) table_.row(r).Look();
      }
      if (watch_.IsOver()) return true;
    }
    return false;
  }

  RankTableHead head_;
  std::vector<RankRow> rows_;
  RankTable table_;
  WatchOptions options_;
  int stopped_ = -1;
  VirtualClock clock_;
  StallWatch watch_{table_, options_, clock_, 0, {1}};
};

TEST_F(StallTest, ASilentRankHangs) {
  table_.row(1).BeginWait(Record(Sum(4, "here"), 1, 5));
  table_.row(2).SetWhere(3, "load");
  EXPECT_FALSE(EndsWithin(29.5));
  EXPECT_TRUE(EndsWithin(1.5));
  EXPECT_THAT(
      table_.StatusForAll(),
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               AllOf(HasSubstr("rank 2 hangs at step 3 in phase load"),
                     HasSubstr("rank 0: runs; last finished nothing; waits in operation 5 "
                               "of group tensor, all_reduce sum f32, 4 elements, at here"))));
  EXPECT_EQ(table_.failure().rank, 2);
}

TEST_F(StallTest, SignsOfLifeKeepWaiting) {
  table_.row(1).BeginWait(Record(Sum(4, "here"), 1, 5));
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(EndsWithin(25));
    table_.row(2).Beat();
  }
}

TEST_F(StallTest, ALongOperationThatMovesIsNoDeadlock) {
  for (int r = 1; r < 3; ++r) table_.row(r).BeginWait(Record(Sum(4, "here"), r, 5));
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(EndsWithin(7.5));
    table_.row(2).Beat();
  }
  EXPECT_TRUE(EndsWithin(8.5));
}

TEST_F(StallTest, AllWaitingIsADeadlock) {
  table_.row(1).BeginWait(Record(Sum(4, "there"), 1, 5));
  EXPECT_FALSE(EndsWithin(5));
  table_.row(2).BeginWait(Record(Sum(4, "elsewhere"), 1, 5));
  EXPECT_FALSE(EndsWithin(7.5));
  EXPECT_TRUE(EndsWithin(1.5));
  EXPECT_THAT(table_.StatusForAll(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                              AllOf(HasSubstr("at here"), HasSubstr("at there"),
                                                    HasSubstr("at elsewhere"))));
}

// A stopped process inside a collective waits like all others: it is the one to name, and may come
// back within the stall time.
TEST_F(StallTest, AStoppedRankIsNoDeadlock) {
  for (int r = 1; r < 3; ++r) table_.row(r).BeginWait(Record(Sum(4, "here"), r, 5));
  stopped_ = 2;
  EXPECT_FALSE(EndsWithin(29.5));
  EXPECT_TRUE(EndsWithin(1.5));
  EXPECT_THAT(table_.StatusForAll(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("rank 2 hangs"), HasSubstr("is its process stopped?"))));
}

TEST_F(StallTest, AStoppedRankMayComeBack) {
  for (int r = 1; r < 3; ++r) table_.row(r).BeginWait(Record(Sum(4, "here"), r, 5));
  stopped_ = 2;
  EXPECT_FALSE(EndsWithin(20));
  stopped_ = -1;
  table_.row(2).Beat();
  EXPECT_FALSE(EndsWithin(7.5));
  EXPECT_TRUE(EndsWithin(1.5));
  EXPECT_THAT(table_.StatusForAll(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                              HasSubstr("collectives do not match")));
}

TEST_F(StallTest, ARankThatEndedMayStillFailForItsReason) {
  table_.row(1).SetLife(RankLife::kLeft);
  EXPECT_FALSE(EndsWithin(0.9));
  EXPECT_TRUE(EndsWithin(1));
  EXPECT_THAT(table_.StatusForAll(), StatusIs(absl::StatusCode::kInvalidArgument,
                                              HasSubstr("waits for rank 1, which has ended")));
}

TEST_F(StallTest, ALostProcessIsNamed) {
  table_.row(2).SetWhere(3, "update");
  table_.row(2).SetLife(RankLife::kLost);
  EXPECT_TRUE(EndsWithin(1));
  EXPECT_THAT(table_.StatusForAll(),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("rank 2 was lost at step 3 in phase "
                                                             "update")));
}

TEST_F(StallTest, TheFirstFailureCounts) {
  EXPECT_OK(table_.StatusForAll());
  table_.row(1).SetWhere(3, "load");
  EXPECT_TRUE(table_.Fail(table_.FailureOf(1, absl::DataLossError("a broken shard"))));
  EXPECT_FALSE(table_.Fail(table_.FailureOf(2, absl::InternalError("follow-on"))));
  EXPECT_TRUE(watch_.IsOver());
  const std::string text = "rank 1 failed at step 3 in phase load: DATA_LOSS: a broken shard";
  EXPECT_THAT(table_.StatusForAll(), StatusIs(absl::StatusCode::kAborted, text));
  EXPECT_THAT(table_.StatusOfCulprit(), StatusIs(absl::StatusCode::kDataLoss, text));
}

TEST_F(StallTest, ReportsAreCutOff) {
  std::vector<RankRow> rows(100);
  const RankTable table(&head_, rows.data(), 100);
  EXPECT_THAT(table.Report({99}),
              AllOf(HasSubstr("\n  rank 99: has not come"), HasSubstr("and 68 more ranks")));
  // Rows remember several operations at once and the last that was finished.
  RankRow& row = rows[0];
  const OperationRecord a = Record(Sum(1, "a"), 0, 1), b = Record(Sum(1, "b"), 0, 2);
  const int first = row.BeginWait(a), second = row.BeginWait(b);
  row.EndWait(first, &a);
  EXPECT_THAT(row.Report(),
              AllOf(HasSubstr("last finished operation 1 "), HasSubstr("waits in operation 2 ")));
  row.EndWait(second, nullptr);
  EXPECT_THAT(row.Report(),
              AllOf(HasSubstr("last finished operation 1 "), HasSubstr("waits in no collective")));
}

}  // namespace
}  // namespace colossus
