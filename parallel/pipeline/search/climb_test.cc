#include "parallel/pipeline/search/climb.h"

#include <random>
#include <vector>

#include "base/testing/seed.h"
#include "gtest/gtest.h"
#include "parallel/pipeline/search/bases.h"
#include "parallel/pipeline/search/lower_bound.h"
#include "parallel/pipeline/search/testing.h"

namespace colossus {
namespace {

void CheckFits(const PipelineActions& actions, const PipelineCosts& costs, double limit,
               const StageOrders& orders) {
  for (const std::vector<int>& order : orders) {
    EXPECT_EQ(static_cast<int>(order.size()), actions.per_stage());
    EXPECT_LE(PeakActivation(actions, costs, order), limit * (1 + kActivationSlack));
  }
}

TEST(ClimbTest, OrdersGetShorterAndStayWithinTheLimit) {
  std::mt19937 random(TestSeed());
  int shorter = 0;
  constexpr int kRounds = 40;
  for (int round = 0; round < kRounds; ++round) {
    PipelineShape shape{2 + static_cast<int>(random() % 4), 1 + static_cast<int>(random() % 2),
                        2 + static_cast<int>(random() % 8)};
    PipelineActions actions(shape, round % 2 == 0 ? PartPlacement::kLoop : PartPlacement::kV, true);
    PipelineCosts costs = RandomPartCosts(shape, random);
    double limit = shape.chunks * (2 + static_cast<double>(random() % 4));
    OrderEvaluator evaluator(actions, costs, Objective::kSpan);
    StageOrders orders = OneByOne(actions);
    ASSERT_TRUE(evaluator.Evaluate(orders));
    Score before = evaluator.score();
    double bound = LengthBound(actions, costs, limit, Objective::kSpan);
    Score after = Climb(actions, costs, limit, bound, 3'000'000, evaluator, orders);
    CheckFits(actions, costs, limit, orders);
    ASSERT_TRUE(evaluator.Evaluate(orders));
    EXPECT_EQ(evaluator.score().longest, after.longest);
    EXPECT_LE(after.longest, before.longest);
    EXPECT_GE(after.longest, bound - evaluator.slack());
    if (after.longest < before.longest) ++shorter;
    Shake(actions, costs, limit, 5, random, evaluator, orders);
    CheckFits(actions, costs, limit, orders);
    EXPECT_TRUE(evaluator.Evaluate(orders));
  }
  EXPECT_GE(shorter, kRounds / 2);
}

TEST(ClimbTest, EffortIsKept) {
  PipelineShape shape{6, 1, 20};
  PipelineActions actions(shape, PartPlacement::kLoop, true);
  PipelineCosts costs = UniformCosts(shape, {2, 3, 1, 0.5});
  OrderEvaluator evaluator(actions, costs, Objective::kSpan);
  StageOrders orders = OneByOne(actions);
  Climb(actions, costs, 6, 0, 10'000, evaluator, orders);
  EXPECT_LE(evaluator.effort(), 10'000 + 10 * actions.size());
}

}  // namespace
}  // namespace colossus
