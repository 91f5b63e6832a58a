// The exact solver against trying every order.
#include "parallel/pipeline/search/exact.h"

#include <algorithm>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/seed.h"
#include "gtest/gtest.h"
#include "parallel/pipeline/search/bases.h"
#include "parallel/pipeline/search/lower_bound.h"
#include "parallel/pipeline/search/order_evaluator.h"
#include "parallel/pipeline/search/testing.h"

namespace colossus {
namespace {

constexpr int kBeginnings = 2'000'000;

// All orders of a stage with one chunk that keep to the limit.
void Orders(const PipelineActions& actions, const PipelineCosts& costs, double limit, int stage,
            std::vector<int>& order, std::vector<int> done, std::vector<std::vector<int>>& all) {
  const int m = actions.shape().micro_batches;
  if (static_cast<int>(order.size()) == actions.per_stage()) {
    if (PeakActivation(actions, costs, order) <= limit) all.push_back(order);
    return;
  }
  constexpr ActionKind kKinds[] = {ActionKind::kForward, ActionKind::kBackwardInput,
                                   ActionKind::kBackwardWeight};
  for (int kind = 0; kind < 3; ++kind) {
    if (done[kind] == m || (kind > 0 && done[kind] == done[kind - 1])) continue;
    order.push_back(actions.Index({kKinds[kind], done[kind], 0, stage}));
    ++done[kind];
    Orders(actions, costs, limit, stage, order, done, all);
    --done[kind];
    order.pop_back();
  }
}

double BruteForce(const PipelineActions& actions, const PipelineCosts& costs, double limit,
                  Objective objective) {
  const int stages = actions.shape().stages;
  std::vector<std::vector<std::vector<int>>> all(stages);
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<int> order;
    Orders(actions, costs, limit, stage, order, {0, 0, 0}, all[stage]);
  }
  OrderEvaluator evaluator(actions, costs, objective);
  double best = kNoCutoff;
  std::vector<size_t> at(stages, 0);
  StageOrders orders(stages);
  while (true) {
    for (int stage = 0; stage < stages; ++stage) orders[stage] = all[stage][at[stage]];
    if (evaluator.Evaluate(orders, best)) best = std::min(best, evaluator.score().longest);
    int stage = 0;
    while (stage < stages && ++at[stage] == all[stage].size()) at[stage++] = 0;
    if (stage == stages) return best;
  }
}

// The exact length, or `known` if nothing is shorter.
double Exact(const PipelineActions& actions, const PipelineCosts& costs, double limit,
             Objective objective, double known) {
  OrderEvaluator evaluator(actions, costs, objective);
  ExactResult exact =
      SolveExactly(actions, costs, limit, objective, known, evaluator.slack(), kBeginnings);
  EXPECT_TRUE(exact.complete);
  if (exact.orders.empty()) return known;
  EXPECT_TRUE(evaluator.Evaluate(exact.orders));
  for (const std::vector<int>& order : exact.orders) {
    EXPECT_LE(PeakActivation(actions, costs, order), limit * (1 + kActivationSlack));
  }
  return evaluator.score().longest;
}

TEST(ExactTest, EqualsBruteForce) {
  std::mt19937 random(TestSeed());
  for (int round = 0; round < 60; ++round) {
    int stages = 1 + round % 3;
    int most = stages == 3 ? 3 : 4;
    PipelineShape shape{stages, 1, 1 + static_cast<int>(random() % most)};
    PipelineActions actions(shape, PartPlacement::kLoop, true);
    PipelineCosts costs = RandomPartCosts(shape, random);
    double limit = 1 + static_cast<int>(random() % shape.micro_batches);
    Objective objective = round % 4 == 0 ? Objective::kMakespan : Objective::kSpan;
    SCOPED_TRACE(absl::StrCat("round ", round, ", ", ToString(shape), ", limit ", limit));
    double best = BruteForce(actions, costs, limit, objective);
    EXPECT_NEAR(Exact(actions, costs, limit, objective, kNoCutoff), best, 1e-6);
    // What is known does not get worse, and nothing shorter than the best is found.
    EXPECT_NEAR(Exact(actions, costs, limit, objective, best + 1), best, 1e-6);
    EXPECT_EQ(Exact(actions, costs, limit, objective, best), best);
    EXPECT_LE(LengthBound(actions, costs, limit, objective), best + 1e-6);
  }
}

TEST(ExactTest, ThreeStagesAndFourMicroBatches) {
  PipelineShape shape{3, 1, 4};
  PipelineActions actions(shape, PartPlacement::kLoop, true);
  // Found by trying all orders of 462 (limit 4), 341 (3) and 89 (2) of each stage.
  auto exact = [&](const StageCosts& times, double limit) {
    return Exact(actions, UniformCosts(shape, times), limit, Objective::kSpan, kNoCutoff);
  };
  EXPECT_DOUBLE_EQ(exact({2, 3, 1, 0.25}, 4), 32);
  EXPECT_DOUBLE_EQ(exact({2, 3, 1, 0.25}, 3), 34);
  EXPECT_DOUBLE_EQ(exact({2, 3, 1, 0.25}, 2), 40);
  EXPECT_DOUBLE_EQ(exact({3, 2, 2, 0.5}, 3), 38);
  EXPECT_DOUBLE_EQ(exact({1, 1, 1, 0}, 3), 14);
}

TEST(ExactTest, SeveralChunksAreNoWorseThanOneByOne) {
  std::mt19937 random(TestSeed());
  for (int round = 0; round < 12; ++round) {
    PipelineShape shape{2, 2, 1 + round % 3};
    PipelineActions actions(shape, round % 2 == 0 ? PartPlacement::kLoop : PartPlacement::kV, true);
    PipelineCosts costs = RandomPartCosts(shape, random);
    OrderEvaluator evaluator(actions, costs, Objective::kSpan);
    double limit = 2 + static_cast<int>(random() % 3);
    ASSERT_TRUE(evaluator.Evaluate(OneByOne(actions)));
    double known = evaluator.score().longest;
    double best = Exact(actions, costs, limit, Objective::kSpan, kNoCutoff);
    EXPECT_LE(best, known + 1e-6);
    EXPECT_GE(best, LengthBound(actions, costs, limit, Objective::kSpan) - 1e-6);
  }
}

TEST(ExactTest, TooManyBeginningsAreTold) {
  PipelineShape shape{4, 1, 6};
  PipelineActions actions(shape, PartPlacement::kLoop, true);
  ExactResult result = SolveExactly(actions, UniformCosts(shape, StageCosts()), kNoMemoryLimit,
                                    Objective::kSpan, kNoCutoff, 1e-9, 1000);
  EXPECT_FALSE(result.complete);
  EXPECT_TRUE(result.orders.empty());
}

}  // namespace
}  // namespace colossus
