#include "trainers/lib/ranks/rank_group.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "collectives/in_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;

TEST(RankGroupTest, OneRankNeedsNobody) {
  RankGroup group;
  EXPECT_TRUE(group.first());
  EXPECT_EQ(group.size(), 1);
  EXPECT_OK(group.Agree(absl::OkStatus(), "x"));
  EXPECT_THAT(group.Agree(absl::NotFoundError("gone"), "x"),
              StatusIs(absl::StatusCode::kNotFound, "gone"));
  EXPECT_EQ(*group.Sum(7, "x"), 7);
  EXPECT_THAT(*group.Gather("a", "x"), ElementsAre("a"));
  EXPECT_EQ(*group.FromFirst("a", "x"), "a");
}

TEST(RankGroupTest, RanksDecideTogether) {
  for (const int ranks : {1, 2, 3, 8}) {
    EXPECT_OK(RunRanks({.ranks = ranks}, [&](Communicator& world) -> absl::Status {
      RankGroup group(&world);
      const int rank = group.rank();
      EXPECT_EQ(*group.Sum(rank + 1, "sum"), ranks * (ranks + 1) / 2);
      EXPECT_EQ(*group.Max(-rank, "max"), 0);
      std::vector<int64_t> numbers = {rank, -rank, 5};
      EXPECT_OK(group.MaxOfEach(numbers, "each"));
      EXPECT_THAT(numbers, ElementsAre(ranks - 1, 0, 5));
      EXPECT_EQ(*group.FromFirst(absl::StrCat("from ", rank), "first"), "from 0");
      // Texts of all lengths, one of them empty.
      ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                       group.Gather(std::string(static_cast<size_t>(rank), 'x'), "texts"));
      EXPECT_EQ(static_cast<int>(texts.size()), ranks);
      for (size_t r = 0; r < texts.size(); ++r) EXPECT_EQ(texts[r], std::string(r, 'x'));
      EXPECT_OK(group.Agree(absl::OkStatus(), "agree"));
      return absl::OkStatus();
    }));
  }
}

TEST(RankGroupTest, AllRanksGetTheLowestError) {
  EXPECT_OK(RunRanks({.ranks = 4}, [](Communicator& world) {
    RankGroup group(&world);
    const bool fails = group.rank() == 1 || group.rank() == 3;
    EXPECT_THAT(group.Agree(fails ? absl::ResourceExhaustedError(
                                        absl::StrCat("disk ", group.rank(), " is full"))
                                  : absl::OkStatus(),
                            "save"),
                StatusIs(absl::StatusCode::kResourceExhausted, "rank 1: disk 1 is full"));
    EXPECT_THAT(group.AgreeOnFirst(absl::NotFoundError(absl::StrCat("of ", group.rank())), "x"),
                StatusIs(absl::StatusCode::kNotFound, "of 0"));
    EXPECT_OK(group.AgreeOnFirst(
        group.first() ? absl::OkStatus() : absl::NotFoundError("nobody looks"), "x"));
    // What all say alike needs no rank.
    EXPECT_THAT(group.Agree(absl::InvalidArgumentError("no: \n all"), "refuse"),
                StatusIs(absl::StatusCode::kInvalidArgument, "no: \n all"));
    // They can go on together.
    return group.Agree(absl::OkStatus(), "again");
  }));
}

}  // namespace
}  // namespace colossus
