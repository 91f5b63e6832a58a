// Times of a pipeline: what ranks make of what each has seen. No test runs a clock; whole trials
// are in tests/layouts:stages_test and trainers/lib/run:offload_test.
#include "parallel/time_pipeline.h"

#include <vector>

#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "collectives/communicator.h"
#include "collectives/in_process.h"
#include "gtest/gtest.h"
#include "parallel/pipeline/costs.h"
#include "parallel/pipeline/schedule_list.h"
#include "parallel/pipeline/timeline.h"

namespace colossus {
namespace {

constexpr ActionKind kForward = ActionKind::kForward, kInput = ActionKind::kBackwardInput,
                     kWeight = ActionKind::kBackwardWeight;

// Two stages of two ranks each, a part a stage, two messages, three micro-batches.
PipelineTimes TimesOf(int rank) {
  PipelineTimes times(2, 2, 3);
  const int stage = rank / 2;
  const double slow = rank == 3 ? 2 : 1;
  for (int m = 0; m < 3; ++m) {
    times.Work(stage, kForward, m) = slow * (stage + 1) + (m == 1 ? 100 : 0);  // one is disturbed
    times.Work(stage, kInput, m) = slow * (stage + 3);
    times.Work(stage, kWeight, m) = slow * (stage + 5);
    // The receiver of the first waits for its work; so does the sender of the second.
    times.Message(0, m) = stage == 0 ? 0.25 : 50;
    times.Message(1, m) = stage == 0 ? 0.5 : m + 40;
  }
  return times;
}

TEST(TimePipelineTest, RanksAgree) {
  std::vector<PipelineCosts> costs(4);
  ASSERT_OK(RunRanks({.ranks = 4}, [&](Communicator& world) -> absl::Status {
    ASSIGN_OR_RETURN(costs[static_cast<size_t>(world.rank())],
                     AgreeOnCosts(TimesOf(world.rank()), world));
    return absl::OkStatus();
  }));
  for (const PipelineCosts& of_rank : costs) {
    ASSERT_EQ(of_rank.parts.size(), 2u);
    EXPECT_EQ(of_rank.parts[0].forward, 1);
    EXPECT_EQ(of_rank.parts[0].backward_input, 3);
    EXPECT_EQ(of_rank.parts[0].backward_weight, 5);
    EXPECT_EQ(of_rank.parts[1].forward, 4);  // rank 3 is slow
    EXPECT_EQ(of_rank.parts[1].backward_input, 8);
    EXPECT_EQ(of_rank.parts[1].backward_weight, 12);
    EXPECT_EQ(of_rank.parts[1].activation, 0);
    EXPECT_EQ(of_rank.communication, 0.5);
    EXPECT_OK(CheckCosts({2, 1, 3}, of_rank));
  }
}

// A part without work of a kind takes no time; without messages neither do they.
TEST(TimePipelineTest, NothingTakesNoTime) {
  ASSERT_OK(RunRanks({.ranks = 1}, [&](Communicator& world) -> absl::Status {
    ASSIGN_OR_RETURN(const PipelineCosts costs, AgreeOnCosts(PipelineTimes(1, 0, 2), world));
    EXPECT_EQ(costs.parts[0].backward_weight, 0);
    EXPECT_EQ(costs.communication, 0);
    return absl::OkStatus();
  }));
}

// The order of one time is worth what it takes by another.
TEST(TimePipelineTest, SecondsOfAnOrder) {
  ASSERT_OK_AND_ASSIGN(const Schedule* searched, FindSchedule(kSearchedSchedule));
  ScheduleInput input;
  input.shape = {3, 1, 6};
  input.objective = Objective::kMakespan;
  input.costs = UniformCosts(input.shape, {.forward = 1, .backward_input = 1,
                                           .backward_weight = 1});
  ASSERT_OK_AND_ASSIGN(const Timeline even, Simulate(*searched, input));
  ASSERT_OK_AND_ASSIGN(const double own, SecondsOf(even, input.costs));
  EXPECT_EQ(own, Measure(even, input.costs).makespan);
  input.costs.parts[2].forward = 3;
  input.costs.communication = 0.5;
  ASSERT_OK_AND_ASSIGN(const Timeline uneven, Simulate(*searched, input));
  ASSERT_OK_AND_ASSIGN(const double before, SecondsOf(even, input.costs));
  ASSERT_OK_AND_ASSIGN(const double after, SecondsOf(uneven, input.costs));
  EXPECT_LE(after, before);
  EXPECT_GT(before, own);
}

}  // namespace
}  // namespace colossus
