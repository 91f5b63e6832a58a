#include "parallel/zero/layout.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "parallel/zero/held_ranges.h"
#include "parallel/zero/testing/small_model.h"
#include "tensor/optim/update.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

Mesh MeshOf(std::vector<MeshAxis> axes) {
  absl::StatusOr<Mesh> mesh = Mesh::Make(std::move(axes));
  CHECK_OK(mesh.status());
  return *std::move(mesh);
}

absl::StatusOr<ZeroLayout> LayoutOf(const SmallModel& model, int rank, ZeroOptions options) {
  const SmallLocal local = MakeLocal(model, rank);
  return ZeroLayout::Make(local.local, local.gradients, model.mesh, rank, options);
}

SmallModel Model() {
  return {MeshOf({{"data", 2}, {"tensor", 2}}),
          {{.name = "wte", .block = "embed", .global = {20, 8}, .decayed = true},
           {.name = "w",
            .block = "h.0",
            .global = {8, 300},
            .split = {{}, {"tensor"}},
            .decayed = true},
           {.name = "b", .block = "h.0", .global = {300}, .split = {{"tensor"}}},
           {.name = "norm", .block = "h.0", .global = {8}, .partial = {{"data", "tensor"}}},
           {.name = "frozen", .block = "h.0", .global = {8, 2}, .partial = {}, .decayed = true},
           {.name = "v",
            .block = "h.0",
            .global = {300, 4},
            .split = {{"tensor"}, {}},
            .decayed = true}},
          DType::kBF16};
}

// Protects: what shares a chunk, by hand: w and v do; b is not decayed, the norm's gradient is a
// sum over tensor too and it is whole there, the frozen one has no gradient, wte is of another
// block.
TEST(ZeroLayoutTest, Chunks) {
  ASSERT_OK_AND_ASSIGN(ZeroLayout layout,
                       LayoutOf(Model(), 3, {.stage = 1, .compute = DType::kBF16}));
  EXPECT_EQ(layout.ToText(),
            "6 parameters in 5 chunks, ZeRO stage 1: 10240 elements, 79.16 % of them padding\n"
            "chunk/0 embed bf16[2048] decayed, 2 shards over [data]\n"
            "  wte 0 bf16[20,8]\n"
            "chunk/1 h.0 bf16[2048] decayed, 2 shards over [data], split over [tensor]\n"
            "  w 0 bf16[8,150]\n"
            "  v 1216 bf16[150,4]\n"
            "chunk/2 h.0 bf16[2048], 2 shards over [data], split over [tensor]\n"
            "  b 0 bf16[150]\n"
            "chunk/3 h.0 bf16[2048], 2 shards over [data], summed over [tensor] first\n"
            "  norm 0 bf16[8]\n"
            "chunk/4 h.0 bf16[2048] frozen decayed, 2 shards over [data]\n"
            "  frozen 0 bf16[8,2]\n");
  EXPECT_EQ(layout.chunks()[1].shard, 1);
  EXPECT_EQ(layout.Find("v")->first, 1216);
  EXPECT_EQ(layout.Find("x"), nullptr);
}

// Protects: which states are whole and which are shards, at each stage.
TEST(ZeroLayoutTest, Stages) {
  const Type whole{DType::kBF16, {2048}}, shard{DType::kBF16, {1024}};
  const Type wide{DType::kF32, {2048}}, wide_shard{DType::kF32, {1024}};
  const struct {
    Type parameter, master;
  } expected[] = {{whole, wide}, {whole, wide_shard}, {whole, wide_shard}, {shard, wide_shard}};
  for (int stage = 0; stage <= 3; ++stage) {
    ASSERT_OK_AND_ASSIGN(ZeroLayout layout,
                         LayoutOf(Model(), 0, {.stage = stage, .compute = DType::kBF16}));
    for (const ZeroChunk& chunk : layout.chunks()) {
      EXPECT_EQ(layout.StateType(chunk, Role::kParameter), expected[stage].parameter);
      EXPECT_EQ(layout.StateType(chunk, Role::kMaster), expected[stage].master);
      EXPECT_EQ(layout.StateType(chunk, Role::kMoment2), expected[stage].master);
    }
    const StateInfo info = layout.StateInfoOf(layout.chunks()[3], Role::kMoment1);
    EXPECT_EQ(info.name, "moment1/chunk/3");
    EXPECT_EQ(info.global_dims, Dims{2048});
    EXPECT_FALSE(info.decayed);
  }
}

// Protects: where a parameter's elements are. v is elements 1216 to 1816 of its chunk, whose border
// of shards is at 1024; w crosses it.
TEST(ZeroLayoutTest, HeldRanges) {
  const SmallModel model = Model();
  for (int rank = 0; rank < 4; ++rank) {
    for (int stage : {0, 1, 3}) {
      ASSERT_OK_AND_ASSIGN(ZeroLayout layout,
                           LayoutOf(model, rank, {.stage = stage, .compute = DType::kBF16}));
      const int data = rank / 2;
      LocalState state = layout.Find("w")->state;
      state.info.role = Role::kMaster;
      state.info.name = "master/w";
      const std::vector<HeldRange> ranges = HeldRanges(layout, state, model.mesh, rank);
      const bool sharded = stage >= 1;
      ASSERT_EQ(ranges.size(), sharded ? 1u : 2u);
      for (const HeldRange& range : ranges) {
        const bool first = range.first == 0;
        EXPECT_EQ(range.home, "master/chunk/1");
        EXPECT_EQ(range.first, first ? 0 : 1024);
        EXPECT_EQ(range.count, first ? 1024 : 1200 - 1024);
        EXPECT_EQ(range.home_first, first ? 0 : sharded ? 0 : 1024);
        EXPECT_EQ(range.owner, first == (data == 0));
        EXPECT_TRUE(!sharded || first == (data == 0));
      }
      // A copy of what tensor rank 0 has is nobody's to save.
      state = layout.Find("norm")->state;
      for (const HeldRange& range : HeldRanges(layout, state, model.mesh, rank)) {
        EXPECT_EQ(range.owner, rank == 0);
      }
    }
  }
}

// Protects: a parameter that is split over data by the plan itself is in a chunk without shards.
TEST(ZeroLayoutTest, SplitOverData) {
  const SmallModel model{
      MeshOf({{"data", 2}}),
      {{.name = "w", .block = "h.0", .global = {8, 2}, .split = {{"data"}, {}}, .partial = {{}}},
       {.name = "frozen", .block = "h.0", .global = {8}, .split = {{"data"}}, .partial = {}}}};
  ASSERT_OK_AND_ASSIGN(ZeroLayout layout, LayoutOf(model, 0, {.stage = 3}));
  for (const ZeroChunk& chunk : layout.chunks()) {
    EXPECT_EQ(chunk.shards, 1);
    EXPECT_FALSE(layout.Sharded(chunk, Role::kParameter));
  }
}

TEST(ZeroLayoutTest, Refusal) {
  const SmallModel model{
      MeshOf({{"data", 2}, {"sequence", 2}}),
      {{.name = "w", .block = "h.0", .global = {8}, .partial = {{"data"}, {"data", "sequence"}}}}};
  EXPECT_THAT(LayoutOf(model, 0, {}).status(),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("uses of 'w' are sums over different token axes: [data] and "
                                 "[data, sequence]")));
}

TEST(ZeroLayoutTest, Applies) {
  EXPECT_FALSE(ZeroLayout::Applies(MeshOf({})));
  EXPECT_FALSE(ZeroLayout::Applies(MeshOf({{"data", 1}, {"tensor", 4}})));
  EXPECT_TRUE(ZeroLayout::Applies(MeshOf({{"data", 2}, {"tensor", 4}})));
  EXPECT_TRUE(ZeroLayout::Applies(MeshOf({{"sequence.group", 2}, {"sequence.member", 1}})));
}

}  // namespace
}  // namespace colossus
