#include "parallel/plan.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

ModelConfig LearnedPositions() {
  ModelConfig config;
  config.max_positions = 8;
  return config;
}

Plan Good() {
  Plan plan;
  plan.micro_batch = 2;
  plan.micro_batches = 3;
  plan.sequence_length = 8;
  return plan;
}

// Protects: what works stays allowed.
TEST(PlanTest, Accepts) {
  EXPECT_EQ(Good().rows(), 6);
  EXPECT_OK(Validate(Good(), LearnedPositions()));
  Plan plan = Good();
  plan.stages[0].mesh = {{"data", 1}};
  plan.precision = {DType::kBF16, DType::kBF16};
  EXPECT_OK(Validate(plan, LearnedPositions()));
  plan.precision = {DType::kF64, DType::kF64};
  EXPECT_OK(Validate(plan, LearnedPositions()));
  // Rotary positions have no table to run out of.
  ModelConfig rotary = LearnedPositions();
  rotary.rope = RopeParameters{};
  plan.sequence_length = 9;
  EXPECT_OK(Validate(plan, rotary));
}

// Protects: a plan that cannot run is refused with its reason.
TEST(PlanTest, Refuses) {
  const struct {
    const char* message;
    std::function<void(Plan&)> change;
  } rows[] = {
      {"stage 1 has rank 0 where 1 comes next", [](Plan& p) { p.stages.push_back({}); }},
      {"there is no stage", [](Plan& p) { p.stages.clear(); }},
      {"recompute_budget goes with recompute=optimal only, not with block",
       [](Plan& p) {
         p.recomputation = Recomputation::kBlock;
         p.recompute_budget_bytes = 1;
       }},
      {"recompute_budget -1 is negative", [](Plan& p) { p.recompute_budget_bytes = -1; }},
      {"mesh without axes has 1 rank, but there are 2",
       [](Plan& p) {
         p.stages[0].ranks = {0, 1};
       }},
      {"mesh data=2 has 2 ranks, but there are 1",
       [](Plan& p) {
         p.stages[0].mesh = {{"data", 2}};
       }},
      {"axis data twice",
       [](Plan& p) {
         p.stages[0].mesh = {{"data", 1}, {"data", 1}};
       }},
      {"mesh axis 'expert'",
       [](Plan& p) {
         p.stages[0].mesh = {{"expert", 1}};
       }},
      {"zero 4 is not in 0 to 3", [](Plan& p) { p.zero = 4; }},
      {"at least 1", [](Plan& p) { p.micro_batch = 0; }},
      {"at least 1", [](Plan& p) { p.micro_batches = -1; }},
      {"at least 1", [](Plan& p) { p.sequence_length = 0; }},
      {"chunk_elements 0 is not in 1 to", [](Plan& p) { p.chunk_elements = 0; }},
      {"smaller micro_batch", [](Plan& p) { p.micro_batch = int64_t{1} << 50; }},
      {"smaller global_batch", [](Plan& p) { p.micro_batches = int64_t{1} << 40; }},
      {"sequence_length 9 is beyond the model's 8", [](Plan& p) { p.sequence_length = 9; }},
      {"float types, not i32", [](Plan& p) { p.precision.compute = DType::kI32; }},
      {"gradients in u8", [](Plan& p) { p.precision.gradient = DType::kU8; }},
      {"f64 goes with f64", [](Plan& p) { p.precision.compute = DType::kF64; }},
      {"f64 goes with f64", [](Plan& p) { p.precision.gradient = DType::kF64; }},
  };
  for (const auto& row : rows) {
    Plan plan = Good();
    row.change(plan);
    EXPECT_THAT(Validate(plan, LearnedPositions()),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(row.message)));
  }
}

Plan OnMesh(std::vector<MeshAxis> mesh, SequenceParallelism sequence) {
  Plan plan = Good();
  plan.sequence = sequence;
  plan.stages[0].mesh = std::move(mesh);
  plan.stages[0].ranks.clear();
  int ranks = 1;
  for (const MeshAxis& axis : plan.stages[0].mesh) ranks *= static_cast<int>(axis.size);
  for (int r = 0; r < ranks; ++r) plan.stages[0].ranks.push_back(r);
  return plan;
}

// Four layers on `stages` stages of `mesh`.
Plan OnStages(int stages, const std::vector<MeshAxis>& mesh) {
  Plan plan = OnMesh(mesh, SequenceParallelism::kRing);
  const StagePlan first = plan.stages[0];
  const int ranks = static_cast<int>(first.ranks.size());
  for (int s = 1; s < stages; ++s) {
    plan.stages.push_back(first);
    for (int& rank : plan.stages.back().ranks) rank += s * ranks;
  }
  plan.micro_batches = 4;
  return plan;
}

ModelConfig FourLayers() {
  ModelConfig config = LearnedPositions();
  config.layers = 4;
  return config;
}

TEST(PlanTest, Stages) {
  Plan plan = OnStages(2, {{"data", 3}});
  EXPECT_OK(Validate(plan, FourLayers()));
  EXPECT_EQ(plan.ranks(), 6);
  EXPECT_EQ(plan.AxisSize("stage"), 2);
  EXPECT_EQ(plan.rows(), 24);
  ASSERT_OK_AND_ASSIGN(const Mesh mesh, PlanMesh(plan, FourLayers()));
  EXPECT_EQ(mesh.axes(), (std::vector<MeshAxis>{{"stage", 2}, {"data", 3}}));
  plan.borders = {"head"};
  EXPECT_OK(Validate(plan, FourLayers()));
  plan.schedule = "zb-v";
  plan.borders = {"h.0", "h.1", "h.2"};
  EXPECT_OK(Validate(plan, FourLayers()));
  ASSERT_OK_AND_ASSIGN(const PipelineShape shape, ShapeOf(plan));
  EXPECT_EQ(shape, (PipelineShape{2, 2, 4}));
}

// Protects: what a pipeline cannot do is refused with what would do.
TEST(PlanTest, RefusesStages) {
  const struct {
    const char* message;
    std::function<void(Plan&)> change;
  } rows[] = {
      {"stage 1: plan: mesh without axes has 1 rank, but there are 2",
       [](Plan& p) { p.stages[1].mesh.clear(); }},
      {"stage 1: plan: mesh axis 'expert'",
       [](Plan& p) {
         p.stages[1].mesh = {{"expert", 2}};
       }},
      {"cannot be shared out over data=3 of stage 1; use a multiple of 3 as micro_batch",
       [](Plan& p) {
         p.stages[1] = {{2, 3, 4}, {{"data", 3}}};
       }},
      {"stages have different ones; name what is to be recomputed",
       [](Plan& p) {
         p.stages[1] = {{2}, {}};
         p.recomputation = Recomputation::kAuto;
       }},
      {"stage 1 has rank 3 where 2 comes next",
       [](Plan& p) {
         p.stages[1].ranks = {3, 4};
       }},
      {"use recompute=block, selective or auto",
       [](Plan& p) { p.recomputation = Recomputation::kOptimal; }},
      {"use update=whole", [](Plan& p) { p.update = UpdateTime::kLayerwise; }},
      {"did you mean zb-h1", [](Plan& p) { p.schedule = "zb_h1"; }},
      {"use micro_batches=2 or 4",
       [](Plan& p) {
         p.schedule = "interleaved";
         p.micro_batches = 3;
       }},
      {"schedule gpipe has 1 chunk a stage, not 2",
       [](Plan& p) {
         p.schedule = "gpipe";
         p.chunks = 2;
       }},
      {"2 stages of 4 chunks are 8 parts, but the model has 6 blocks; use at most 3 chunks",
       [](Plan& p) {
         p.schedule = "looped";
         p.chunks = 4;
       }},
      {"2 borders cut a model into 3 parts, but the stages hold 2; name 1 blocks as borders",
       [](Plan& p) {
         p.borders = {"h.0", "h.1"};
       }},
      {"border 'h.4' is no block of the model", [](Plan& p) { p.borders = {"h.4"}; }},
      {"border 'embed' leaves a part without blocks", [](Plan& p) { p.borders = {"embed"}; }},
      {"chunks is -1", [](Plan& p) { p.chunks = -1; }},
      {"chunks and borders have no effect with one stage; leave them out",
       [](Plan& p) {
         p.stages.resize(1);
         p.borders = {"h.1"};
       }},
      {"schedule, chunks and borders have no effect with one stage",
       [](Plan& p) {
         p.stages.resize(1);
         p.schedule = "gpipe";
       }},
  };
  for (const auto& row : rows) {
    Plan plan = OnStages(2, {{"data", 2}});
    row.change(plan);
    EXPECT_THAT(Validate(plan, FourLayers()),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(row.message)));
  }
}

constexpr SequenceParallelism kRing = SequenceParallelism::kRing;
constexpr SequenceParallelism kAllToAll = SequenceParallelism::kAllToAll;

// Protects: an axis is divided exactly where key/value heads are fewer than the ranks along it.
TEST(PlanTest, MeshesHaveTheAxesThatHeadsNeed) {
  const struct {
    int64_t heads, kv_heads;
    std::vector<MeshAxis> mesh;
    SequenceParallelism sequence;
    std::vector<MeshAxis> axes;
  } rows[] = {
      {8, 8, {{"data", 2}, {"tensor", 4}}, kRing, {{"data", 2}, {"tensor", 4}}},
      {8,
       2,
       {{"tensor", 4}, {"data", 2}},
       kRing,
       {{"tensor.group", 2}, {"tensor.member", 2}, {"data", 2}}},
      {8, 2, {{"tensor", 2}}, kRing, {{"tensor", 2}}},
      {8, 1, {{"tensor", 4}}, kRing, {{"tensor", 4}}},
      {8, 2, {{"sequence", 4}}, kRing, {{"sequence", 4}}},
      {8, 2, {{"sequence", 4}}, kAllToAll, {{"sequence.group", 2}, {"sequence.member", 2}}},
      {8,
       4,
       {{"tensor", 2}, {"sequence", 4}},
       kAllToAll,
       {{"tensor", 2}, {"sequence.group", 2}, {"sequence.member", 2}}},
      {8,
       2,
       {{"tensor", 4}, {"sequence", 2}},
       kAllToAll,
       {{"tensor.group", 2}, {"tensor.member", 2}, {"sequence", 2}}},
  };
  for (const auto& row : rows) {
    ModelConfig config = LearnedPositions();
    config.heads = row.heads;
    config.kv_heads = row.kv_heads;
    ASSERT_OK_AND_ASSIGN(Mesh mesh, PlanMesh(OnMesh(row.mesh, row.sequence), config));
    EXPECT_EQ(mesh.axes(), row.axes);
  }
}

// FIELD case A14: head counts that do not divide are refused with the sizes that would do.
TEST(PlanTest, HeadsThatDoNotDivideAreRefused) {
  const struct {
    int64_t heads, kv_heads;
    std::vector<MeshAxis> mesh;
    const char* message;
  } rows[] = {
      {3,
       2,
       {{"tensor", 4}},
       "3 query heads and 2 key/value heads cannot be split over tensor=4; these tensor sizes "
       "would do: 1"},
      {33, 2, {{"tensor", 4}}, "would do: 1"},
      {12, 6, {{"tensor", 4}}, "would do: 1, 2, 3, 6, 12"},
      {8,
       4,
       {{"tensor", 2}, {"sequence", 3}},
       "cannot be split over tensor=2 and sequence=3 by --sequence=all_to_all; these sequence "
       "sizes would do: 1, 2, 4; --sequence=ring takes any"},
  };
  for (const auto& row : rows) {
    ModelConfig config = LearnedPositions();
    config.heads = row.heads;
    config.kv_heads = row.kv_heads;
    EXPECT_THAT(Validate(OnMesh(row.mesh, kAllToAll), config),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(row.message)));
  }
}

TEST(PlanTest, PositionsAreDealtOutInZigzag) {
  const struct {
    std::vector<MeshAxis> mesh;
    SequenceParallelism sequence;
    TensorLayout layout;
    int64_t length, padded;
    std::vector<int64_t> order;
  } rows[] = {
      {{{"data", 2}}, kRing, TensorLayout::k1d, 7, 7, {}},
      {{{"tensor", 4}}, kRing, TensorLayout::k1d, 7, 7, {}},
      {{{"sequence", 2}}, kRing, TensorLayout::k1d, 7, 8, {0, 1, 6, 7, 2, 3, 4, 5}},
      {{{"sequence", 2}}, kAllToAll, TensorLayout::k1d, 7, 8, {}},
      {{{"tensor", 4}}, kRing, TensorLayout::k2d, 3, 4, {0, 3, 1, 2}},
      {{{"tensor", 4}, {"sequence", 2}}, kRing, TensorLayout::k2d, 8, 8, {0, 7, 1, 6, 2, 5, 3, 4}},
      {{{"tensor", 4}, {"sequence", 3}},
       kAllToAll,
       TensorLayout::k2d,
       9,
       12,
       {0, 1, 2, 9, 10, 11, 3, 4, 5, 6, 7, 8}},
  };
  for (const auto& row : rows) {
    Plan plan = OnMesh(row.mesh, row.sequence);
    plan.tensor_layout = row.layout;
    plan.sequence_length = row.length;
    EXPECT_EQ(plan.padded_length(), row.padded);
    EXPECT_EQ(plan.Order(), row.order);
  }
}

// Protects: whatever the length, each part's tokens see as many tokens before them as any other's.
TEST(PlanTest, OrderDealsOutEqualCausalWork) {
  for (int64_t parts : {2, 3, 4, 8, 16}) {
    for (int64_t length = 1; length <= 200; ++length) {
      Plan plan = OnMesh({{"sequence", parts}}, kRing);
      plan.sequence_length = length;
      const std::vector<int64_t> order = plan.Order();
      const size_t part = order.size() / static_cast<size_t>(parts);
      std::set<int64_t> work;  // of each part
      for (size_t first = 0; first < order.size(); first += part) {
        int64_t pairs = 0;
        for (size_t i = first; i < first + part; ++i) pairs += order[i] + 1;
        work.insert(pairs);
      }
      EXPECT_EQ(work.size(), 1u) << parts << " parts of " << length;
    }
  }
}

TEST(PlanTest, ShardedNormsNeedALengthThatDivides) {
  const struct {
    std::vector<MeshAxis> mesh;
    int64_t length;
    const char* message;  // empty: fine
  } rows[] = {
      {{{"data", 4}}, 7, ""},
      {{{"sequence", 2}}, 7, ""},
      {{{"tensor", 4}}, 8, ""},
      {{{"tensor", 2}, {"sequence", 2}}, 15, ""},  // padded to 16
      {{{"tensor", 4}},
       7,
       "into 4 parts, tensor=4 times sequence=1, which do not divide "
       "sequence_length 7; use a sequence_length of 4 or 8, or norms=auto"},
      {{{"tensor", 4}}, 3, "use a sequence_length of 4, or norms=auto"},
      {{{"tensor", 3}, {"sequence", 2}}, 16, "use a sequence_length of 12 or 24, or norms=auto"},
  };
  for (const auto& row : rows) {
    ModelConfig config = LearnedPositions();
    config.heads = config.kv_heads = 12;
    config.max_positions = 64;
    Plan plan = OnMesh(row.mesh, kRing);
    plan.sequence_length = row.length;
    plan.norms = NormLayout::kSharded;
    const absl::Status status = Validate(plan, config);
    EXPECT_EQ(status.ok(), row.message[0] == '\0') << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(row.message));
    plan.norms = NormLayout::kAuto;
    EXPECT_OK(Validate(plan, config));
  }
}

TEST(PlanTest, RowsAreThoseOfAllRanks) {
  EXPECT_EQ(OnMesh({{"data", 4}, {"tensor", 2}}, kRing).rows(), 24);
}

template <typename T>
void ExpectNames(const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(Name(static_cast<T>(i)), names[i]);
    T value = {};
    EXPECT_TRUE(ParseName(names[i], &value)) << names[i];
    EXPECT_EQ(value, static_cast<T>(i));
  }
  T value = static_cast<T>(1);
  EXPECT_FALSE(ParseName("", &value));
  EXPECT_EQ(value, static_cast<T>(1));
}

TEST(PlanTest, Names) {
  ExpectNames<SequenceParallelism>({"ring", "all_to_all"});
  ExpectNames<TensorLayout>({"1d", "2d"});
  ExpectNames<NormLayout>({"auto", "sharded", "replicated"});
  ExpectNames<Recomputation>({"none", "cheap", "selective", "block", "optimal", "auto"});
  ExpectNames<AccumulationOrder>({"auto", "horizontal", "vertical"});
  ExpectNames<UpdateTime>({"whole", "layerwise"});
}

}  // namespace
}  // namespace colossus
