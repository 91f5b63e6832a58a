#include "parallel/pipeline/wave.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "parallel/pipeline/costs.h"

namespace colossus {
namespace {

// Small letters: chunk 1.
std::string Text(const PipelineActions& actions, const std::vector<int>& order) {
  std::string text;
  for (int index : order) {
    Action action = actions.At(index);
    char letter = action.kind == ActionKind::kForward         ? 'F'
                  : action.kind == ActionKind::kBackwardInput ? 'B'
                                                              : 'W';
    if (action.chunk == 1) letter = static_cast<char>(letter - 'A' + 'a');
    absl::StrAppend(&text, text.empty() ? "" : " ", std::string(1, letter), action.micro_batch);
  }
  return text;
}

TEST(WaveTest, MicroBatchesFollowThePatternEverySixSlots) {
  PipelineActions actions({2, 2, 2}, PartPlacement::kV, true);
  // Stage 0: slots 0, 3, 4, 7; stage 1: 1, 2, 5, 6; weight gradients in what is left of six.
  StageOrders orders = WaveOrders(actions, {.steps = {1, 1, 1, 1}});
  ASSERT_EQ(orders.size(), 2u);
  EXPECT_EQ(Text(actions, orders[0]), "F0 f0 b0 w0 F1 B0 W0 f1 b1 w1 B1 W1");
}

TEST(WaveTest, PatternsThatCannotBeAreEmpty) {
  // The forwards of both chunks are six slots apart on stage 0, whatever the turn below.
  PipelineActions actions({2, 2, 2}, PartPlacement::kV, true);
  EXPECT_TRUE(WaveOrders(actions, {.steps = {3, 2, 1, 1}, .first_turn = 1}).empty());
}

TEST(WaveTest, SmallStepsKeepFewActivations) {
  for (int stages : {2, 3, 4, 5, 6, 9, 12}) {
    PipelineShape shape{stages, 2, 3 * stages};
    PipelineActions actions(shape, PartPlacement::kV, true);
    PipelineCosts units = UniformCosts(shape, StageCosts());
    auto most = [&](const Wave& wave) {
      double peak = 0;
      for (const std::vector<int>& order : WaveOrders(actions, wave)) {
        peak = std::max(peak, PeakActivation(actions, units, order));
      }
      return peak;
    };
    EXPECT_LE(most({.steps = {1, 1, 1, 1}}), (stages + 4) / 3) << stages;
    EXPECT_LE(most({.steps = {2, 1, 2, 1}, .last_turn = 2}), (stages + 2) / 2) << stages;
    EXPECT_LE(most({.steps = {1, 2, 4, 2}, .last_turn = 2}), stages) << stages;
  }
}

}  // namespace
}  // namespace colossus
