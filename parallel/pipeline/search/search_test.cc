#include "parallel/pipeline/search/search.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "parallel/pipeline/fixed_schedules.h"
#include "parallel/pipeline/schedule_list.h"
#include "parallel/pipeline/search/exact.h"
#include "parallel/pipeline/search/testing.h"
#include "parallel/pipeline/timeline.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

TimelineFigures Searched(const ScheduleInput& input) {
  absl::StatusOr<const Schedule*> schedule = FindSchedule("searched");
  absl::StatusOr<Timeline> timeline = Simulate(**schedule, input);
  EXPECT_OK(timeline.status());
  if (!timeline.ok()) return {};
  TimelineFigures figures = Measure(*timeline, input.costs);
  for (double peak : figures.peak_activations) {
    EXPECT_LE(peak, input.memory_limit * (1 + kActivationSlack));
  }
  return figures;
}

ScheduleInput Uniform(const PipelineShape& shape, const StageCosts& times, double limit) {
  return {.shape = shape, .costs = UniformCosts(shape, times), .memory_limit = limit};
}

// Bubble rates that a published automatic schedule reaches in the memory of 2 p activations, and
// the share of an activation that those models keep for weight gradients:
// 32 h / (34 h + 5 a s) with h, a, s = 2304, 24, 1024 and 4096, 32, 1024.
TEST(SearchTest, NotOverPublishedRates) {
  struct Row {
    int m;
    StageCosts times;
    double rate;
    double whole;  // micro-batches that the published one keeps if all is freed with the weights
  };
  const double small = 32 * 2304 / (34 * 2304 + 5 * 24 * 1024.0);
  const double large = 32 * 4096 / (34 * 4096 + 5 * 32 * 1024.0);
  for (const Row& row : std::vector<Row>{{24, {18.522, 18.086, 9.337, 0.601, small}, .0433, 24},
                                         {32, {18.513, 18.086, 9.331, 0.626, small}, .0039, 32},
                                         {64, {18.546, 18.097, 9.321, 0.762, small}, .0026, 36},
                                         {24, {29.718, 29.444, 19.927, 0.527, large}, .0029, 24},
                                         {32, {29.802, 29.428, 19.530, 0.577, large}, .0022, 32},
                                         {64, {29.935, 29.621, 19.388, 0.535, large}, .0010, 33}}) {
    SCOPED_TRACE(absl::StrCat(row.m, " micro-batches, forward ", row.times.forward));
    PipelineShape shape{8, 1, row.m};
    EXPECT_LE(Searched(Uniform(shape, row.times, 16)).bubble_rate, row.rate + 0.00005);
    StageCosts whole = row.times;
    whole.weight_activation = 1;
    EXPECT_LE(Searched(Uniform(shape, whole, row.whole)).bubble_rate, row.rate + 0.00005);
    EXPECT_LE(Searched(Uniform(shape, whole, kNoMemoryLimit)).bubble_rate, row.rate + 0.00005);
  }
}

// Where activations are freed with the weight gradients, 16 do not allow the rates above: the last
// stage must have 8 weight gradients done before its last backward-input. That bound is reached.
TEST(SearchTest, ReachesTheBoundOfTheLastStage) {
  StageCosts t{18.522, 18.086, 9.337, 0.601};
  double span = 7 * (t.forward + t.communication) + 24 * (t.forward + t.backward_input) +
                8 * t.backward_weight + 7 * (t.backward_input + t.communication) +
                t.backward_weight;
  EXPECT_NEAR(Searched(Uniform({8, 1, 24}, t, 16)).span, span, 1e-6);
}

TEST(SearchTest, NeverWorseThanAFixedScheduleUnderTheSameLimit) {
  std::mt19937 random(TestSeed());
  int compared = 0;
  for (int round = 0; round < 60; ++round) {
    ScheduleInput input;
    input.shape = {1 + static_cast<int>(random() % 5), 1 + round % 3,
                   1 + static_cast<int>(random() % 10)};
    if (round % 4 == 0) input.shape.micro_batches = 2 * input.shape.stages;
    input.costs = RandomPartCosts(input.shape, random);
    input.memory_limit =
        input.shape.chunks * (1 + static_cast<double>(random() % (2 * input.shape.stages)));
    input.effort = 2'000'000;
    if (round % 5 == 0) input.objective = Objective::kMakespan;
    SCOPED_TRACE(absl::StrCat("round ", round, ", ", ToString(input.shape)));
    TimelineFigures searched = Searched(input);
    for (const Schedule& schedule : FixedSchedules()) {
      absl::StatusOr<Timeline> timeline = Simulate(schedule, input);
      if (!timeline.ok()) continue;
      ++compared;
      TimelineFigures fixed = Measure(*timeline, input.costs);
      if (input.objective == Objective::kSpan) {
        EXPECT_LE(searched.span, fixed.span + 1e-6) << schedule.name;
      } else {
        EXPECT_LE(searched.makespan, fixed.makespan + 1e-6) << schedule.name;
      }
    }
  }
  EXPECT_GE(compared, 40);
}

TEST(SearchTest, SmallPipelinesAreSolved) {
  std::mt19937 random(TestSeed());
  for (int round = 0; round < 40; ++round) {
    ScheduleInput input;
    input.shape = {1 + static_cast<int>(random() % 3), 1, 1 + static_cast<int>(random() % 4)};
    input.costs = RandomPartCosts(input.shape, random);
    input.memory_limit = 1 + static_cast<double>(random() % 4);
    SCOPED_TRACE(absl::StrCat("round ", round, ", ", ToString(input.shape)));
    ASSERT_OK_AND_ASSIGN(SearchResult found, SearchOrder(input));
    EXPECT_TRUE(found.optimal);
    PipelineActions actions(input.shape, PartPlacement::kLoop, true);
    ExactResult shorter = SolveExactly(actions, input.costs, input.memory_limit, input.objective,
                                       found.score.longest, 1e-6, 2'000'000);
    EXPECT_TRUE(shorter.complete);
    EXPECT_TRUE(shorter.orders.empty());
  }
}

TEST(SearchTest, WithoutBubbleWhereThereNeedBeNone) {
  EXPECT_NEAR(Searched(Uniform({4, 1, 8}, {}, 7)).bubble_rate, 0, 1e-9);
  EXPECT_NEAR(Searched(Uniform({8, 1, 24}, {}, 15)).bubble_rate, 0, 1e-9);
  EXPECT_NEAR(Searched(Uniform({4, 2, 8}, {}, 4)).bubble_rate, 0, 1e-9);  // a V
  EXPECT_NEAR(Searched(Uniform({4, 1, 8}, {}, 4)).span, 27, 1e-9);        // zb-h1
}

TEST(SearchTest, TheSameInEveryRun) {
  ScheduleInput input = Uniform({4, 2, 9}, {3, 4, 2, 0.5}, 3.5);
  ASSERT_OK_AND_ASSIGN(SearchResult first, SearchOrder(input));
  ASSERT_OK_AND_ASSIGN(SearchResult second, SearchOrder(input));
  EXPECT_EQ(first.orders, second.orders);
}

TEST(SearchTest, ALimitUnderOneMicroBatchIsRefused) {
  ScheduleInput input = Uniform({4, 2, 8}, {}, 0.75);
  absl::Status status = SearchOrder(input).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("memory_limit 0.75 is under the 1 that one micro-batch keeps"));
  input.memory_limit = 1;
  EXPECT_GT(Searched(input).span, 0);
}

}  // namespace
}  // namespace colossus
