#include "trainers/lib/config/run_layout.h"

#include <string>

#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "parallel/plan.h"
#include "shardformer/config.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

std::string LayoutOf(int64_t ranks, const char* mesh, int world) {
  const absl::StatusOr<RunLayout> layout = PlanRanks(ranks, mesh, world);
  return layout.ok() ? layout->ToString() : std::string(layout.status().message());
}

TEST(RunLayoutTest, RanksAndMesh) {
  EXPECT_EQ(LayoutOf(0, "", 0), "1 rank");
  EXPECT_EQ(LayoutOf(1, "", 0), "1 rank");
  EXPECT_EQ(LayoutOf(1, "data=1,tensor=1", 0), "1 rank");
  EXPECT_EQ(LayoutOf(4, "", 0), "4 ranks, data=4");
  EXPECT_EQ(LayoutOf(0, "data=2,tensor=4", 0), "8 ranks, data=2,tensor=4");
  EXPECT_EQ(LayoutOf(8, "tensor=4,data=2", 0), "8 ranks, tensor=4,data=2");
  EXPECT_EQ(LayoutOf(0, "", 3), "3 ranks, data=3");
  EXPECT_EQ(LayoutOf(2, "", 1), "2 ranks, data=2");  // mpirun -n 1: threads
  EXPECT_EQ(LayoutOf(3, "tensor=3", 3), "3 ranks, tensor=3");
  ASSERT_OK_AND_ASSIGN(const RunLayout layout, PlanRanks(0, "data=2,tensor=4", 0));
  EXPECT_EQ(layout.Size("tensor"), 4);
  EXPECT_EQ(layout.Size("sequence"), 1);
}

TEST(RunLayoutTest, AtMostSoManyRanks) {
  EXPECT_EQ(LayoutOf(0, "data=64,tensor=64", 0), "4096 ranks, data=64,tensor=64");
  EXPECT_EQ(LayoutOf(0, "data=4097", 0),
            "plan.mesh data=4097 is of 4097 ranks; a run has at most 4096");
  EXPECT_THAT(LayoutOf(0, "stage:/stage:data=200000", 0), HasSubstr("of 200001 ranks"));
}

TEST(RunLayoutTest, PlanOfStages) {
  ASSERT_OK_AND_ASSIGN(const RunLayout layout, PlanRanks(0, "stage=2,data=3", 0));
  Options::Plan options;
  options.schedule = "gpipe";
  options.borders = "h.1";
  const Plan plan = PlanOf(layout, options);
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[1].ranks, (std::vector<int>{3, 4, 5}));
  EXPECT_EQ(plan.stages[1].mesh, (std::vector<MeshAxis>{{"data", 3}}));
  EXPECT_EQ(plan.AxisSize("stage"), 2);
  EXPECT_EQ(plan.AxisSize("data"), 3);
  EXPECT_EQ(plan.schedule, "gpipe");
  EXPECT_EQ(plan.borders, std::vector<std::string>{"h.1"});
}

// With stage=1 keys of a pipeline are not dropped, but left for Validate to refuse.
TEST(RunLayoutTest, KeysOfOneStage) {
  ASSERT_OK_AND_ASSIGN(const RunLayout layout, PlanRanks(0, "stage=1,data=2", 0));
  Options::Plan options;
  ModelConfig config;
  config.max_positions = 8;
  EXPECT_OK(Validate(PlanOf(layout, options), config));
  options.chunks = 2;
  EXPECT_THAT(Validate(PlanOf(layout, options), config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("chunks and borders have no effect with one stage")));
  options.chunks = 0;
  options.borders = "h.1";
  EXPECT_FALSE(Validate(PlanOf(layout, options), config).ok());
  options.borders.clear();
  options.schedule = "gpipe";
  EXPECT_FALSE(Validate(PlanOf(layout, options), config).ok());
}

TEST(RunLayoutTest, ChunksAndOverrides) {
  ASSERT_OK_AND_ASSIGN(const RunLayout layout, PlanRanks(0, "data=2,tensor=2", 0));
  Options options;
  EXPECT_EQ(PlanOf(layout, options.plan).chunk_elements, Plan().chunk_elements);
  options.plan.chunk_elements = 4096;
  options.plan.overrides = "*.c_fc.weight=data/tensor";
  EXPECT_OK(colossus::LayoutOf(options));
  const Plan plan = PlanOf(layout, options.plan);
  EXPECT_EQ(plan.chunk_elements, 4096);
  EXPECT_EQ(plan.overrides,
            (std::vector<ShardingOverride>{{"*.c_fc.weight", {{"data"}, {"tensor"}}}}));
  options.plan.overrides = "tensor";
  EXPECT_THAT(colossus::LayoutOf(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("plan.overrides: 'tensor' is no override")));
}

TEST(RunLayoutTest, StagesOfDifferentMeshes) {
  EXPECT_EQ(LayoutOf(0, "stage:/stage:data=2,tensor=2/stage:", 0),
            "6 ranks, stage:/stage:data=2,tensor=2/stage:");
  EXPECT_EQ(LayoutOf(4, "stage:data=2/stage:data=2", 0), "4 ranks, stage=2,data=2");
  ASSERT_OK_AND_ASSIGN(const RunLayout layout, PlanRanks(0, "stage:data=2/stage:tensor=3", 0));
  EXPECT_EQ(layout.Size("stage"), 2);
  EXPECT_EQ(layout.Size("tensor"), 1);
  EXPECT_EQ(layout.LargestSize("tensor"), 3);
  Options::Plan options;
  options.schedule = "gpipe";
  const Plan plan = PlanOf(layout, options);
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[1].ranks, (std::vector<int>{2, 3, 4}));
  EXPECT_EQ(plan.stages[1].mesh, (std::vector<MeshAxis>{{"tensor", 3}}));
  EXPECT_THAT(LayoutOf(4, "stage:data=2/stage:", 0),
              HasSubstr("has stages of 3 ranks together, but the run has 4 (run.ranks)"));
  EXPECT_THAT(LayoutOf(0, "stage:data=2/tensor=2", 0), HasSubstr("'tensor=2' is no stage"));
}

// E1: the sizes that would do are named.
TEST(RunLayoutTest, E1_SizesThatDoNotMultiplyToTheRanks) {
  EXPECT_EQ(LayoutOf(8, "tensor=1,data=3", 0),
            "plan.mesh tensor=1,data=3 is a mesh of 3 ranks, but the run has 8 (run.ranks): the "
            "sizes must multiply to 8, so an axis can have 1, 2, 4 or 8");
  EXPECT_THAT(LayoutOf(8, "stage=3,tensor=1", 0), HasSubstr("an axis can have 1, 2, 4 or 8"));
  EXPECT_THAT(LayoutOf(0, "data=2,stage=4", 0),
              HasSubstr("the axis stage comes first, as stage=4,data=2"));
  EXPECT_THAT(LayoutOf(0, "data=2", 6),
              HasSubstr("the run has 6 (processes): the sizes must multiply to 6, so an axis can "
                        "have 1, 2, 3 or 6"));
  EXPECT_EQ(LayoutOf(4, "", 2),
            "run.ranks is 4, but 2 processes were started as ranks; leave it out, or start as "
            "many");
  EXPECT_THAT(LayoutOf(0, "data=x", 0), HasSubstr("plan.mesh: 'data=x' is no axis"));
}

}  // namespace
}  // namespace colossus
