#include "parallel/pipeline/action.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;

std::vector<int> PartsOf(const PipelineActions& actions, int stage) {
  std::vector<int> parts;
  for (int c = 0; c < actions.shape().chunks; ++c) parts.push_back(actions.PartOf(stage, c));
  return parts;
}

TEST(PipelineActionsTest, LoopGoesRoundAndVTurns) {
  PipelineShape shape{3, 3, 1};
  PipelineActions loop(shape, PartPlacement::kLoop, true), v(shape, PartPlacement::kV, true);
  EXPECT_THAT(PartsOf(loop, 0), ElementsAre(0, 3, 6));
  EXPECT_THAT(PartsOf(loop, 2), ElementsAre(2, 5, 8));
  EXPECT_THAT(PartsOf(v, 0), ElementsAre(0, 5, 6));
  EXPECT_THAT(PartsOf(v, 2), ElementsAre(2, 3, 8));
  for (int part = 0; part < 9; ++part) {
    EXPECT_EQ(v.PartOf(v.StageOf(part), v.ChunkOf(part)), part);
    EXPECT_EQ(loop.PartOf(loop.StageOf(part), loop.ChunkOf(part)), part);
  }
}

TEST(PipelineActionsTest, NumbersAreThoseOfTheActions) {
  for (bool split : {false, true}) {
    PipelineActions actions({2, 3, 4}, PartPlacement::kV, split);
    EXPECT_EQ(actions.size(), 2 * 3 * 4 * (split ? 3 : 2));
    for (int i = 0; i < actions.size(); ++i) {
      Action action = actions.At(i);
      EXPECT_EQ(actions.Index(action), i);
      EXPECT_EQ(actions.PartAt(i), actions.PartOf(action.stage, action.chunk));
      EXPECT_EQ(actions.KindAt(i), action.kind);
      EXPECT_EQ(actions.MicroBatchAt(i), action.micro_batch);
      EXPECT_EQ(actions.StageAt(i), action.stage);
    }
  }
}

TEST(PipelineActionsTest, SourcesFollowTheModel) {
  PipelineActions actions({2, 2, 3}, PartPlacement::kV, true);
  auto source = [&](const Action& action) {
    int index = actions.SourceOf(actions.Index(action));
    return index < 0 ? std::string("none") : ToString(actions.At(index));
  };
  EXPECT_EQ(source({ActionKind::kForward, 1, 0, 0}), "none");
  EXPECT_EQ(source({ActionKind::kForward, 1, 0, 1}),
            "forward of micro-batch 1 by stage 0, chunk 0");
  EXPECT_EQ(source({ActionKind::kForward, 1, 1, 1}),
            "forward of micro-batch 1 by stage 1, chunk 0");
  EXPECT_EQ(source({ActionKind::kForward, 1, 1, 0}),
            "forward of micro-batch 1 by stage 1, chunk 1");
  EXPECT_EQ(source({ActionKind::kBackwardInput, 2, 1, 0}),
            "forward of micro-batch 2 by stage 0, chunk 1");
  EXPECT_EQ(source({ActionKind::kBackwardInput, 2, 0, 1}),
            "backward-input of micro-batch 2 by stage 1, chunk 1");
  EXPECT_EQ(source({ActionKind::kBackwardWeight, 2, 0, 1}),
            "backward-input of micro-batch 2 by stage 1, chunk 0");
  PipelineActions whole({1, 1, 1}, PartPlacement::kLoop, false);
  EXPECT_EQ(whole.SourceOf(whole.Index({ActionKind::kBackward, 0, 0, 0})),
            whole.Index({ActionKind::kForward, 0, 0, 0}));
}

TEST(PipelineActionsTest, ShapesHaveText) {
  EXPECT_EQ(ToString(PipelineShape{1, 1, 1}), "1 stage, 1 chunk and 1 micro-batch");
  EXPECT_EQ(ToString(PipelineShape{4, 2, 8}), "4 stages, 2 chunks and 8 micro-batches");
}

TEST(PipelineActionsDeathTest, KindsOfTheOtherSplitAreNoActions) {
  PipelineActions whole({1, 1, 1}, PartPlacement::kLoop, false);
  EXPECT_DEATH(whole.Index({ActionKind::kBackwardWeight, 0, 0, 0}), "split_backward_");
}

}  // namespace
}  // namespace colossus
