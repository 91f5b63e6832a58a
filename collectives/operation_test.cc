#include "collectives/operation.h"

#include <vector>

#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

float buffer[64];

// Every refusal of Validate, by rank 1 of 3.
TEST(OperationTest, RefusesWhatIsMalformed) {
  const struct {
    Collective op;
    const char* text;
  } kRows[] = {
      {{.kind = CollectiveKind::kAllReduce, .count = -1}, "a count below 0"},
      {{.kind = CollectiveKind::kExchange, .receive_count = -1}, "a count below 0"},
      {{.kind = CollectiveKind::kAllReduce, .rows = 2}, "rows and counts are for"},
      {{.kind = CollectiveKind::kBroadcast, .counts = {1, 1, 1}}, "rows and counts are for"},
      {{.kind = CollectiveKind::kAllGather, .rows = 0}, "0 rows; at least 1"},
      {{.kind = CollectiveKind::kAllGather, .rows = 2, .counts = {1, 1, 1}}, "equal parts"},
      {{.kind = CollectiveKind::kAllToAll, .counts = {1, 1, 1}}, "come together"},
      {{.kind = CollectiveKind::kAllGather, .receive_counts = {1, 1, 1}}, "all_to_all only"},
      {{.kind = CollectiveKind::kAllGather, .counts = {1, 1}}, "2 counts for 3 ranks"},
      {{.kind = CollectiveKind::kReduceScatter, .counts = {1, -1, 1}}, "a count of -1"},
      {{.kind = CollectiveKind::kBroadcast, .root = 3}, "root 3 is not in 0..2"},
      {{.kind = CollectiveKind::kExchange, .to = 3}, "peer 3 is not in -1..2"},
      {{.kind = CollectiveKind::kExchange, .from = -2}, "peer -2 is not in -1..2"},
      {{.kind = CollectiveKind::kExchange, .to = 1, .from = 0}, "sent to oneself"},
      {{.kind = CollectiveKind::kExchange, .count = 2, .receive_count = 1, .to = 1, .from = 1},
       "sent to oneself"},
      {{.kind = CollectiveKind::kReduceScatter, .dtype = DType::kBool}, "not reduced"},
      {{.kind = CollectiveKind::kAllReduce, .dst = buffer, .count = 1}, "no src"},
      {{.kind = CollectiveKind::kAllReduce, .src = buffer, .count = 1}, "no dst"},
      {{.kind = CollectiveKind::kAllReduce, .src = buffer, .dst = buffer + 1, .count = 2},
       "overlap"},
      {{.kind = CollectiveKind::kAllGather, .src = buffer, .dst = buffer, .count = 2}, "overlap"},
      {{.kind = CollectiveKind::kAllGather,
        .src = buffer + 2,
        .dst = buffer,
        .count = 2,
        .rows = 2},
       "overlap"},
      {{.kind = CollectiveKind::kAllToAll, .src = buffer, .dst = buffer, .count = 2}, "overlap"},
  };
  for (const auto& row : kRows) {
    EXPECT_THAT(Validate(row.op, 1, 3),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(row.text)))
        << Describe(row.op);
  }
}

TEST(OperationTest, AcceptsWhatIsOffered) {
  const Collective kOps[] = {
      {.kind = CollectiveKind::kAllReduce, .src = buffer, .dst = buffer, .count = 2},
      {.kind = CollectiveKind::kAllReduce, .count = 0},
      {.kind = CollectiveKind::kAllGather, .src = buffer + 2, .dst = buffer, .count = 2},
      {.kind = CollectiveKind::kReduceScatter, .src = buffer, .dst = buffer + 2, .count = 2},
      {.kind = CollectiveKind::kBroadcast, .dst = buffer, .count = 2, .root = 0},
      {.kind = CollectiveKind::kBroadcast, .src = buffer, .dst = buffer, .count = 2, .root = 1},
      {.kind = CollectiveKind::kExchange},
      {.kind = CollectiveKind::kAllToAll, .counts = {0, 0, 0}, .receive_counts = {0, 0, 0}},
      {.kind = CollectiveKind::kBarrier},
  };
  for (const Collective& op : kOps) EXPECT_OK(Validate(op, 1, 3)) << Describe(op);
}

TEST(OperationTest, MembersAreDistinctRanks) {
  EXPECT_OK(ValidateMembers({2, 0}, 0, 3));
  for (const std::vector<int>& members :
       {std::vector<int>{0, 0}, std::vector<int>{0, 3}, std::vector<int>{-1, 0}}) {
    EXPECT_THAT(ValidateMembers(members, 0, 3),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("distinct ranks of 3")));
  }
  EXPECT_THAT(ValidateMembers({1, 2}, 0, 3),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 0 is not a member")));
}

TEST(OperationTest, FindsWhatDoesNotMatch) {
  const Collective sum = {.kind = CollectiveKind::kAllReduce, .count = 4, .site = "a"};
  const auto other = [&](auto change) {
    Collective changed = sum;
    change(changed);
    return MismatchOf(sum, 0, changed, 1);
  };
  EXPECT_EQ(MismatchOf(sum, 0, sum, 1), "");
  EXPECT_EQ(other([](Collective& op) { op.count = 8; }), "element counts");
  EXPECT_EQ(other([](Collective& op) { op.dtype = DType::kF64; }), "types");
  EXPECT_EQ(other([](Collective& op) { op.reduction = Reduction::kMax; }), "reductions");
  EXPECT_EQ(other([](Collective& op) { op.site = "b"; }), "call sites");
  EXPECT_EQ(other([](Collective& op) { op.site = ""; }), "");
  EXPECT_EQ(other([](Collective& op) { op.kind = CollectiveKind::kBarrier; }), "operations");
  const Collective to_all = {
      .kind = CollectiveKind::kAllToAll, .counts = {0, 3}, .receive_counts = {0, 2}};
  Collective back = {.kind = CollectiveKind::kAllToAll, .counts = {2, 0}, .receive_counts = {3, 0}};
  EXPECT_EQ(MismatchOf(to_all, 0, back, 1), "");
  back.receive_counts = {4, 0};
  EXPECT_EQ(MismatchOf(to_all, 0, back, 1), "counts of what is sent and received");
  const Collective send = {.kind = CollectiveKind::kExchange, .count = 4, .to = 1};
  Collective receive = {.kind = CollectiveKind::kExchange, .receive_count = 4, .from = 0};
  EXPECT_EQ(MismatchOf(send, 0, receive, 1), "");
  receive.dtype = DType::kBF16;
  EXPECT_EQ(MismatchOf(send, 0, receive, 1), "types");
  receive.from = -1;
  EXPECT_EQ(MismatchOf(send, 0, receive, 1), "ends");
}

TEST(OperationTest, Describes) {
  EXPECT_EQ(Describe({.kind = CollectiveKind::kReduceScatter, .count = 4, .rows = 3, .site = "x"}),
            "reduce_scatter sum f32, 3 rows of 4 elements a part, at x");
  EXPECT_EQ(Describe({.kind = CollectiveKind::kExchange,
                      .dtype = DType::kBF16,
                      .count = 4,
                      .receive_count = 5,
                      .to = 1,
                      .from = 2}),
            "exchange bf16, 4 elements to rank 1 and 5 from rank 2, at a place without a name");
  EXPECT_EQ(Describe({.kind = CollectiveKind::kBarrier, .site = "end"}), "barrier, at end");
}

TEST(OperationTest, EvenPartsCoverAll) {
  for (int64_t count : {0, 1, 5, 16, 17}) {
    for (int size : {1, 3, 8}) {
      int64_t next = 0;
      for (int p = 0; p < size; ++p) {
        const PartRange part = EvenPart(count, size, p);
        EXPECT_EQ(part.first, next);
        EXPECT_GE(part.count, 0);
        next += part.count;
      }
      EXPECT_EQ(next, count);
    }
  }
}

}  // namespace
}  // namespace colossus
