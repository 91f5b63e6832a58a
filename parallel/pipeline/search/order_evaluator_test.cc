#include "parallel/pipeline/search/order_evaluator.h"

#include <algorithm>
#include <random>
#include <vector>

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "parallel/pipeline/search/bases.h"
#include "parallel/pipeline/search/lower_bound.h"
#include "parallel/pipeline/search/testing.h"
#include "parallel/pipeline/timeline.h"

namespace colossus {
namespace {

TEST(OrderEvaluatorTest, TimesAreThoseOfTheListScheduler) {
  std::mt19937 random(TestSeed());
  int compared = 0;
  for (int round = 0; round < 60; ++round) {
    PipelineShape shape{1 + static_cast<int>(random() % 4), 1 + static_cast<int>(random() % 3),
                        1 + static_cast<int>(random() % 6)};
    PipelineActions actions(shape, round % 2 == 0 ? PartPlacement::kLoop : PartPlacement::kV, true);
    PipelineCosts costs = RandomPartCosts(shape, random);
    Objective objective = round % 3 == 0 ? Objective::kMakespan : Objective::kSpan;
    OrderEvaluator evaluator(actions, costs, objective);
    for (const StageOrders& orders : BaseOrders(actions, costs, kNoMemoryLimit)) {
      Rules rules;
      rules.placement = actions.placement();
      rules.split_backward = true;
      rules.must_run_before = InOrder(actions, orders);
      rules.memory_bound.assign(shape.stages, shape.micro_batches);
      absl::StatusOr<Timeline> timeline = RunRules(rules, shape, costs);
      ASSERT_EQ(evaluator.Evaluate(orders), timeline.ok()) << timeline.status();
      if (!timeline.ok()) continue;
      ++compared;
      TimelineFigures figures = Measure(*timeline, costs);
      EXPECT_EQ(evaluator.score().makespan, figures.makespan);
      EXPECT_EQ(evaluator.score().longest,
                objective == Objective::kSpan ? figures.span : figures.makespan);
      for (const std::vector<TimedAction>& stage : timeline->stages) {
        for (const TimedAction& timed : stage) {
          EXPECT_EQ(evaluator.start(actions.Index(timed.action)), timed.start);
        }
      }
      // Within and under what it takes.
      EXPECT_TRUE(evaluator.Evaluate(orders, evaluator.score().longest));
      EXPECT_FALSE(evaluator.Evaluate(orders, evaluator.score().longest - 0.125));
      EXPECT_LE(LengthBound(actions, costs, kNoMemoryLimit, objective),
                evaluator.score().longest + evaluator.slack());
    }
  }
  EXPECT_GE(compared, 200);
}

TEST(ScoreTest, ComparesInTwoWays) {
  Score a{10, 20, 30}, b{10, 19, 31}, c{9, 50, 50};
  EXPECT_TRUE(a.Improves(b, 0.1));
  EXPECT_FALSE(b.Improves(a, 0.1));
  EXPECT_TRUE(b.PreferredTo(a, 0.1));
  EXPECT_FALSE(a.PreferredTo(b, 0.1));
  EXPECT_TRUE(c.Improves(a, 0.1));
  EXPECT_TRUE(c.PreferredTo(a, 0.1));
  EXPECT_FALSE(c.PreferredTo(a, 2));  // as long, and a later makespan
  EXPECT_FALSE(a.Improves(a, 0));
}

TEST(EarlyWeightsTest, CountsWhatMemoryDoesNotLetWait) {
  PartCosts part{1, 1, 1, 1, 1};
  EXPECT_EQ(EarlyWeights(part, 24, kNoMemoryLimit), 0);
  EXPECT_EQ(EarlyWeights(part, 24, 16), 8);
  EXPECT_EQ(EarlyWeights(part, 24, 1), 23);
  EXPECT_EQ(EarlyWeights(part, 24, 30), 0);
  part.weight_activation = 0.5;
  EXPECT_EQ(EarlyWeights(part, 24, 4), 17);  // 1 + 6 x 0.5
  part.weight_activation = 0;
  EXPECT_EQ(EarlyWeights(part, 24, 1), 0);
}

}  // namespace
}  // namespace colossus
