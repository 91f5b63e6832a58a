#include "trainers/lib/ranks/launch.h"

#include <atomic>
#include <stdexcept>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/parallel_for.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class LaunchTest : public ::testing::Test {
 protected:
  LaunchTest() : log_([this](absl::string_view text) { absl::StrAppend(&said_, text); }, false) {
    config_.options.run.threads = 1;
  }

  absl::StatusOr<int> Run(int ranks, const RankJob& job) {
    context_.begun = false;
    return RunOnRanks(context_, {ranks, {{"data", ranks}}}, job);
  }

  Config config_;
  std::string said_;
  Log log_;
  JobContext context_{config_, log_};
};

TEST_F(LaunchTest, EveryRankRunsAndRankZeroSpeaks) {
  for (const int ranks : {1, 2, 5}) {
    said_.clear();
    std::atomic<int> sum{0};
    const absl::StatusOr<int> result = Run(ranks, [&](JobContext& context, RankGroup group) {
      EXPECT_EQ(group.size(), ranks);
      if (ranks > 1) {
        EXPECT_EQ(Threads(), 1);
      }
      context.log.Info(absl::StrCat("rank ", group.rank()));
      context.begun = true;
      sum += group.rank() + 1;
      return absl::StatusOr<int>(group.first() ? 7 : 8);
    });
    EXPECT_EQ(*result, 7);
    EXPECT_TRUE(context_.begun);
    EXPECT_EQ(sum, ranks * (ranks + 1) / 2);
    EXPECT_EQ(said_, "rank 0\n");
  }
}

// What all ranks refuse is said once, as it is.
TEST_F(LaunchTest, ARefusalIsSaidAsItIs) {
  const absl::StatusOr<int> result = Run(4, [&](JobContext&, RankGroup) -> absl::StatusOr<int> {
    return absl::InvalidArgumentError("batch: 14 does not divide 256");
  });
  EXPECT_THAT(result,
              StatusIs(absl::StatusCode::kInvalidArgument, "batch: 14 does not divide 256"));
  EXPECT_FALSE(context_.begun);
}

// D1: rank 2 fails at step 3, by an error and by an exception; the others wait for it and end.
TEST_F(LaunchTest, D1_TheFirstErrorEndsAllRanks) {
  for (const bool exception : {false, true}) {
    const absl::StatusOr<int> result =
        Run(4, [&](JobContext& context, RankGroup group) -> absl::StatusOr<int> {
          context.begun = true;
          for (int64_t step = 1;; ++step) {
            group.world()->SetWhere(step, "update");
            if (group.rank() == 2 && step == 3) {
              if (exception) throw std::runtime_error("out of luck");
              return absl::DataLossError("out of luck");
            }
            const absl::Status status = group.Sum(1, "loop").status();
            if (!status.ok()) return status;
          }
        });
    EXPECT_THAT(std::string(result.status().message()),
                AllOf(HasSubstr("rank 2"), HasSubstr("step 3"), HasSubstr("update"),
                      HasSubstr("out of luck")));
    EXPECT_TRUE(context_.begun);
  }
}

}  // namespace
}  // namespace colossus
