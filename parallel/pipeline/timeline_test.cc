#include "parallel/pipeline/timeline.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "parallel/pipeline/schedule_list.h"

namespace colossus {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Rules that leave everything open.
Rules NoRules(int stages, double bound, bool split = false) {
  Rules rules;
  rules.split_backward = split;
  rules.must_run_before = [](const Action&, const Action&) { return false; };
  rules.memory_bound.assign(stages, bound);
  return rules;
}

// "F0 F1 B0", capital letters; the stage's actions in running order.
std::string OrderOf(const Timeline& timeline, int stage) {
  std::string order;
  for (const TimedAction& timed : timeline.stages[stage]) {
    const char* letter = timed.action.kind == ActionKind::kForward          ? "F"
                         : timed.action.kind == ActionKind::kBackwardWeight ? "W"
                                                                            : "B";
    order +=
        (order.empty() ? "" : " ") + std::string(letter) + std::to_string(timed.action.micro_batch);
  }
  return order;
}

TEST(TimelineTest, WhatRulesLeaveOpenGoesBackwardsFirst) {
  PipelineShape shape{2, 1, 3};
  PipelineCosts costs = UniformCosts(shape, {.forward = 1, .backward_input = 1});
  ASSERT_OK_AND_ASSIGN(Timeline timeline, RunRules(NoRules(2, 3, true), shape, costs));
  EXPECT_EQ(OrderOf(timeline, 1), "F0 B0 F1 B1 F2 B2 W0 W1 W2");
  EXPECT_EQ(OrderOf(timeline, 0), "F0 F1 F2 B0 W0 B1 W1 B2 W2");
}

TEST(TimelineTest, TimesAndFiguresOfOneMicroBatch) {
  PipelineShape shape{2, 1, 1};
  PipelineCosts costs = UniformCosts(shape, {.forward = 2,
                                             .backward_input = 3,
                                             .backward_weight = 4,
                                             .communication = 0.5,
                                             .weight_activation = 0.25});
  ASSERT_OK_AND_ASSIGN(Timeline timeline, RunRules(NoRules(2, 1, true), shape, costs));
  EXPECT_THAT(timeline.stages[1][0].start, DoubleEq(2.5));  // forward
  EXPECT_THAT(timeline.stages[1][1].start, DoubleEq(4.5));  // backward-input
  EXPECT_THAT(timeline.stages[1][2].start, DoubleEq(7.5));  // backward-weight
  EXPECT_THAT(timeline.stages[0][1].start, DoubleEq(8));    // does not wait for backward-weight
  EXPECT_THAT(timeline.stages[0][2].end, DoubleEq(15));
  TimelineFigures figures = Measure(timeline, costs);
  EXPECT_THAT(figures.makespan, DoubleEq(15));
  EXPECT_THAT(figures.span, DoubleEq(15));
  EXPECT_THAT(figures.bubble_rate, DoubleEq(6.0 / 15));
  EXPECT_THAT(figures.peak_activations, ElementsAre(1, 1));
  EXPECT_EQ(figures.messages, 2);
}

TEST(TimelineTest, AWholeBackwardSendsWhenAllOfItIsDone) {
  PipelineShape shape{2, 1, 1};
  PipelineCosts costs =
      UniformCosts(shape, {.forward = 2, .backward_input = 3, .backward_weight = 4});
  ASSERT_OK_AND_ASSIGN(Timeline timeline, RunRules(NoRules(2, 1), shape, costs));
  EXPECT_THAT(timeline.stages[0][1].start, DoubleEq(11));
}

TEST(TimelineTest, PartsMayDiffer) {
  PipelineShape shape{2, 1, 2};
  PipelineCosts costs;
  costs.parts = {{.forward = 1, .backward_input = 1, .activation = 10, .weight_activation = 10},
                 {.forward = 5, .backward_input = 5, .activation = 3, .weight_activation = 1}};
  ASSERT_OK_AND_ASSIGN(const Schedule* schedule, FindSchedule("1f1b"));
  ASSERT_OK_AND_ASSIGN(Timeline timeline, Simulate(*schedule, {.shape = shape, .costs = costs}));
  TimelineFigures figures = Measure(timeline, costs);
  EXPECT_THAT(figures.makespan, DoubleEq(22));
  EXPECT_THAT(figures.bubble_rate, DoubleEq(2.0 / 22));  // of the busier stage's work, 20
  EXPECT_THAT(figures.peak_activations, ElementsAre(20, 3));
}

TEST(TimelineTest, WeightActivationsAreFreedLast) {
  PipelineShape shape{1, 1, 2};
  PipelineCosts costs = UniformCosts(shape, {.weight_activation = 0.25});
  Rules rules = NoRules(1, 2, true);
  rules.must_run_before = [](const Action& a, const Action& b) {  // weight gradients last
    return b.kind == ActionKind::kBackwardWeight ||
           (a.kind == ActionKind::kBackwardInput && b.micro_batch > a.micro_batch);
  };
  ASSERT_OK_AND_ASSIGN(Timeline timeline, RunRules(rules, shape, costs));
  EXPECT_EQ(OrderOf(timeline, 0), "F0 B0 F1 B1 W0 W1");
  EXPECT_THAT(Measure(timeline, costs).peak_activations, ElementsAre(DoubleEq(1.25)));
}

TEST(TimelineTest, MessagesStayWithinTheStageWhereAVTurns) {
  auto messages = [](const char* name, const PipelineShape& shape) {
    absl::StatusOr<const Schedule*> schedule = FindSchedule(name);
    PipelineCosts costs = UniformCosts(shape, StageCosts());
    absl::StatusOr<Timeline> timeline = Simulate(**schedule, {.shape = shape, .costs = costs});
    return Measure(*timeline, costs).messages;
  };
  EXPECT_EQ(messages("1f1b", {4, 1, 8}), 2 * 3 * 8);
  EXPECT_EQ(messages("interleaved", {4, 2, 8}), 2 * 7 * 8);
  EXPECT_EQ(messages("zb-v", {4, 2, 8}), 2 * 6 * 8);
  EXPECT_EQ(messages("looped", {1, 3, 2}), 0);
}

TEST(TimelineTest, RulesThatContradictTheDataAreToldApart) {
  Rules rules = NoRules(2, 1, true);
  rules.must_run_before = [](const Action& a, const Action& b) {
    return a.kind == ActionKind::kBackwardWeight && b.kind == ActionKind::kForward;
  };
  PipelineShape shape{2, 1, 1};
  absl::Status status = RunRules(rules, shape, UniformCosts(shape, StageCosts())).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("backward-input of micro-batch 0 by stage 0, chunk 0; backward-input of "
                        "micro-batch 0 by stage 1, chunk 0"));
}

TEST(TimelineTest, ABoundThatIsNotKeptIsAnError) {
  PipelineShape shape{1, 1, 4};
  Rules rules = NoRules(1, 3);
  rules.must_run_before = [](const Action& a, const Action& b) {
    return a.kind == ActionKind::kForward && b.kind == ActionKind::kBackward;
  };
  absl::Status status = RunRules(rules, shape, UniformCosts(shape, StageCosts())).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("stage 0 keeps the activations of 4 micro-batches, but the schedule "
                        "promises at most 3"));
}

TEST(TimelineTest, InputIsChecked) {
  ASSERT_OK_AND_ASSIGN(const Schedule* schedule, FindSchedule("1f1b"));
  ScheduleInput input;
  input.shape = {4, 1, 8};
  input.costs = UniformCosts(input.shape, StageCosts());
  auto refused = [&](const ScheduleInput& wrong) {
    absl::Status status = Simulate(*schedule, wrong).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  ScheduleInput wrong = input;
  wrong.shape.micro_batches = 0;
  EXPECT_THAT(refused(wrong), HasSubstr("not 4 stages, 1 chunk and 0 micro-batches"));
  wrong = input;
  wrong.costs.parts.pop_back();
  EXPECT_THAT(refused(wrong), HasSubstr("costs of 3 parts, but there are 4"));
  wrong = input;
  wrong.costs.parts[2].forward = -1;
  EXPECT_THAT(refused(wrong), HasSubstr("finite and at least 0"));
  wrong = input;
  wrong.costs.parts[2].weight_activation = 2;
  EXPECT_THAT(refused(wrong), HasSubstr("at most that of the part"));
  wrong = input;
  wrong.memory_limit = 3.5;
  EXPECT_THAT(refused(wrong),
              HasSubstr("memory_limit 3.5 is under the 4 that schedule 1f1b keeps with 4 stages, 1 "
                        "chunk and 8 micro-batches: raise it to 4"));
  wrong.memory_limit = 4;
  EXPECT_OK(Simulate(*schedule, wrong).status());
}

}  // namespace
}  // namespace colossus
