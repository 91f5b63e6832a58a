#include "parallel/pipeline/compact.h"

#include <algorithm>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "parallel/pipeline/search/bases.h"
#include "parallel/pipeline/search/order_evaluator.h"
#include "parallel/pipeline/search/testing.h"
#include "parallel/pipeline/timeline.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;
using Wait = CompactOptions::Wait;
using Weights = CompactOptions::Weights;

// "F0 F1 B0": a stage's order.
std::string Text(const PipelineActions& actions, const std::vector<int>& order) {
  std::string text;
  for (int action : order) {
    ActionKind kind = actions.KindAt(action);
    absl::StrAppend(&text, text.empty() ? "" : " ",
                    kind == ActionKind::kForward          ? "F"
                    : kind == ActionKind::kBackwardWeight ? "W"
                                                          : "B",
                    actions.MicroBatchAt(action));
  }
  return text;
}

StageOrders Dense(const PipelineActions& actions, const PipelineCosts& costs, double limit,
                  const CompactOptions& options) {
  return Compact(SchedulerOf(actions, costs), actions, costs, OneByOne(actions), limit, options);
}

TEST(CompactTest, FillsWaitsAsFarAsMemoryAllows) {
  PipelineActions actions({2, 1, 3}, PartPlacement::kLoop, true);
  PipelineCosts costs = UniformCosts(actions.shape(), StageCosts());
  StageOrders one = Dense(actions, costs, 1, {});
  EXPECT_EQ(Text(actions, one[0]), "F0 B0 W0 F1 B1 W1 F2 B2 W2");
  StageOrders two = Dense(actions, costs, 2, {});
  EXPECT_EQ(Text(actions, two[0]), "F0 F1 B0 W0 B1 F2 W1 B2 W2");
  EXPECT_EQ(Text(actions, two[1]), "F0 B0 F1 B1 W0 W1 F2 B2 W2");
  StageOrders three = Dense(actions, costs, 3, {});
  EXPECT_EQ(Text(actions, three[0]), "F0 F1 F2 B0 W0 B1 W1 B2 W2");
}

TEST(CompactTest, WeightGradientsRunInOrderOrLast) {
  PipelineActions actions({1, 1, 2}, PartPlacement::kLoop, true);
  PipelineCosts costs = UniformCosts(actions.shape(), StageCosts());
  EXPECT_EQ(Text(actions, Dense(actions, costs, 9, {.weights = Weights::kInOrder})[0]),
            "F0 B0 W0 F1 B1 W1");
  EXPECT_EQ(Text(actions, Dense(actions, costs, 9, {.weights = Weights::kAfterForwards})[0]),
            "F0 B0 W0 F1 B1 W1");
  EXPECT_EQ(Text(actions, Dense(actions, costs, 9, {.weights = Weights::kLast})[0]),
            "F0 B0 F1 B1 W0 W1");
}

TEST(CompactTest, WaitsForABackwardThatAForwardWouldHoldUp) {
  // Stage 0 is free at 4 and has a forward of 2; its backward, begun below at 3, arrives at 4.5.
  PipelineActions actions({2, 1, 3}, PartPlacement::kLoop, true);
  PipelineCosts costs;
  costs.parts = {{2, 1, 1, 1, 1}, {1, 1.5, 1, 1, 1}};
  auto first = [&](Wait wait, double allowance) {
    CompactOptions options{.before_forwards = wait, .idle_allowance = allowance};
    return Text(actions, Dense(actions, costs, 3, options)[0]).substr(0, 11);
  };
  EXPECT_EQ(first(Wait::kNever, 9), "F0 F1 F2 B0");
  EXPECT_EQ(first(Wait::kWithinAllowance, 0.25), "F0 F1 F2 B0");
  EXPECT_EQ(first(Wait::kWithinAllowance, 0.5), "F0 F1 B0 F2");
  EXPECT_EQ(first(Wait::kAlways, 0), "F0 F1 B0 F2");
}

TEST(CompactTest, WaitsForWhatAWeightGradientWouldHoldUp) {
  // Stage 1 is free at 6.5 and has a weight gradient of 2; its forward arrives at 8.
  PipelineActions actions({2, 1, 2}, PartPlacement::kLoop, true);
  PipelineCosts costs;
  costs.parts = {{4, 1, 1, 1, 1}, {1, 1.5, 2, 1, 1}};
  auto first = [&](Wait wait, double allowance) {
    CompactOptions options{.before_weights = wait, .idle_allowance = allowance};
    return Text(actions, Dense(actions, costs, 2, options)[1]).substr(0, 8);
  };
  EXPECT_EQ(first(Wait::kNever, 9), "F0 B0 W0");
  EXPECT_EQ(first(Wait::kWithinAllowance, 1.25), "F0 B0 W0");
  EXPECT_EQ(first(Wait::kWithinAllowance, 1.5), "F0 B0 F1");
  EXPECT_EQ(first(Wait::kAlways, 0), "F0 B0 F1");
}

TEST(CompactTest, OrdersRunWithinTheLimit) {
  std::mt19937 random(TestSeed());
  int ran = 0, shorter = 0;
  for (int round = 0; round < 60; ++round) {
    PipelineShape shape{1 + static_cast<int>(random() % 5), 1 + static_cast<int>(random() % 3),
                        1 + static_cast<int>(random() % 8)};
    PipelineActions actions(shape, round % 2 == 0 ? PartPlacement::kLoop : PartPlacement::kV, true);
    PipelineCosts costs = RandomPartCosts(shape, random);
    ListScheduler scheduler = SchedulerOf(actions, costs);
    double limit = shape.chunks * (1 + static_cast<double>(random() % 6));
    OrderEvaluator evaluator(actions, costs, Objective::kSpan);
    CompactOptions options;
    options.weights = static_cast<Weights>(random() % 3);
    options.before_weights = static_cast<Wait>(random() % 3);
    options.before_forwards = static_cast<Wait>(random() % 3);
    options.idle_allowance = static_cast<double>(random() % 8);
    for (const StageOrders& base : BaseOrders(actions, costs, limit)) {
      bool fits = true;
      for (const auto& order : base) fits = fits && PeakActivation(actions, costs, order) <= limit;
      if (!fits || !evaluator.Evaluate(base)) continue;
      double before = evaluator.score().longest;
      StageOrders dense = Compact(scheduler, actions, costs, base, limit, options);
      ASSERT_TRUE(evaluator.Evaluate(dense)) << ToString(shape) << " in round " << round;
      ++ran;
      if (evaluator.score().longest < before) ++shorter;
      for (const auto& order : dense) {
        EXPECT_EQ(static_cast<int>(order.size()), actions.per_stage());
        EXPECT_LE(PeakActivation(actions, costs, order), limit * (1 + kActivationSlack));
      }
    }
  }
  EXPECT_GE(ran, 300);
  EXPECT_GE(shorter, ran / 3);
}

}  // namespace
}  // namespace colossus
