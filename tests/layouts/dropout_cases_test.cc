// Field cases A6 and A10 on ranks: masks are a function of seed, update, site and global element,
// so neither a layout nor recomputation nor what else is drawn changes one.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "collectives/mesh.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/dropout.h"
#include "tensor/testing/run_on_ranks.h"
#include "tensor/testing/sharded_op.h"
#include "tests/layouts/compare.h"
#include "tests/layouts/layout_run.h"
#include "tests/parity/small_trainer.h"

namespace colossus {
namespace {

// ---- A6: a [4,8] tensor of ones, rate 0.5.

ShardedOp DropOnes(std::map<std::string, AxisNames> axes) {
  HostTensor ones(Type{DType::kF32, {4, 8}});
  for (float& x : ones.data<float>()) x = 1;
  return {
      .op = &DropoutOp(),
      .attributes = {{"rate", 0.5}, {"site", "h.0.mlp"}},
      .operands = {ones, HostTensor::Of<int64_t>({2}, {1, 7}), HostTensor::Of<int64_t>({}, {0})},
      .axes = std::move(axes)};
}

struct Layout {
  const char* axis;
  std::map<std::string, AxisNames> axes;
};

std::vector<Layout> Layouts() {
  return {{"tensor", {}},
          {"tensor", {{"d1", {"tensor"}}}},
          {"sequence", {{"d0", {"sequence"}}}},
          {"data", {{"d0", {"data"}}}}};
}

TEST(FieldCases, A6OneMaskInAllLayouts) {
  const HostTensor whole = RunWhole(DropOnes({}))[0];
  int kept = 0;
  for (double x : whole.ToDoubles()) {
    EXPECT_TRUE(x == 0 || x == 2.0) << x;
    kept += x != 0;
  }
  EXPECT_GT(kept, 4);
  EXPECT_LT(kept, 28);
  for (const Layout& layout : Layouts()) {
    SCOPED_TRACE(absl::StrCat(layout.axis, "=2, ", layout.axes.empty() ? "replicated" : "split"));
    ASSERT_OK_AND_ASSIGN(const Mesh mesh, Mesh::Make({{layout.axis, 2}}));
    ASSERT_OK_AND_ASSIGN(const ShardedRun run, RunSharded(DropOnes(layout.axes), mesh));
    EXPECT_TRUE(run.results[0] == whole);
  }
}

// Protects: ranks along data do not share a mask: rows 0 and 1 are not dropped as rows 2 and 3 are.
TEST(FieldCases, A6DataRanksDoNotShareAMask) {
  ASSERT_OK_AND_ASSIGN(const Mesh mesh, Mesh::Make({{"data", 2}}));
  ASSERT_OK_AND_ASSIGN(const ShardedRun run, RunSharded(DropOnes({{"d0", {"data"}}}), mesh));
  EXPECT_NE(run.runs[0].outputs.at("y0").ToDoubles(), run.runs[1].outputs.at("y0").ToDoubles());
}

// Rank 1 draws once more elsewhere, before the layer.
TEST(FieldCases, A6AnotherDrawOnOneRankChangesNothing) {
  const ShardedOp drop = DropOnes({});
  ASSERT_OK_AND_ASSIGN(const Mesh mesh, Mesh::Make({{"tensor", 2}}));
  std::vector<Graph> graphs;
  for (int rank = 0; rank < 2; ++rank) {
    GraphBuilder builder("layer");
    const ValueId x = builder.Feed("x", drop.operands[0].type());
    const ValueId key = builder.Feed("key", drop.operands[1].type());
    const ValueId row = builder.Feed("row", drop.operands[2].type());
    if (rank == 1) builder.Output("extra", Dropout(builder, x, key, row, 0.5, "elsewhere"));
    builder.Output("y", Dropout(builder, x, key, row, 0.5, "h.0.mlp"));
    ASSERT_OK_AND_ASSIGN(Graph graph, std::move(builder).Build());
    graphs.push_back(std::move(graph));
  }
  const std::vector<HostTensors> inputs(
      2, {{"x", drop.operands[0]}, {"key", drop.operands[1]}, {"row", drop.operands[2]}});
  ASSERT_OK_AND_ASSIGN(const std::vector<RankRun> ranks, RunGraphsOnRanks(mesh, graphs, inputs));
  const HostTensor whole = RunWhole(drop)[0];
  for (const RankRun& rank : ranks) EXPECT_TRUE(rank.outputs.at("y") == whole);
  EXPECT_FALSE(ranks[1].outputs.at("extra") == whole);
}

// The model's layers in training: the losses and gradients of one rank.
TEST(FieldCases, A6ModelsHaveTheSameMasks) {
  LayoutRun run;
  run.config = SmallGpt2(R"({"attn_pdrop": 0.5, "embd_pdrop": 0.5, "resid_pdrop": 0.5})");
  run.optimizer.kind = Optimizer::Kind::kSgd;
  run.updates = 2;
  run.plan = LayoutPlan({}, 2, 1, 8);
  run.plan.dropout = true;
  ASSERT_OK_AND_ASSIGN(const LayoutResult one, Train(run));
  const auto expect_same = [&](std::vector<MeshAxis> mesh, NormLayout norms,
                               SequenceParallelism sequence, int64_t micro_batch) {
    SCOPED_TRACE(absl::StrCat(mesh[0].name, " ", Name(norms), " ", Name(sequence)));
    run.plan = LayoutPlan(std::move(mesh), micro_batch, 1, 8);
    run.plan.dropout = true;
    run.plan.norms = norms;
    run.plan.sequence = sequence;
    ASSERT_OK_AND_ASSIGN(const LayoutResult many, Train(run));
    ExpectEqual(many, one);
  };
  const auto ring = SequenceParallelism::kRing, all_to_all = SequenceParallelism::kAllToAll;
  expect_same({{"tensor", 2}}, NormLayout::kReplicated, ring, 2);
  expect_same({{"tensor", 2}}, NormLayout::kSharded, ring, 2);
  expect_same({{"sequence", 2}}, NormLayout::kAuto, ring, 2);
  expect_same({{"sequence", 2}}, NormLayout::kAuto, all_to_all, 2);
  expect_same({{"data", 2}}, NormLayout::kAuto, ring, 1);
}

// ---- A10: two blocks, dropout 0.5, recomputation off, selective and per block.

TEST(FieldCases, A10RecomputationWithDropout) {
  const std::vector<MeshAxis> meshes[] = {
      {{"tensor", 2}}, {{"data", 2}, {"tensor", 2}}, {{"sequence", 2}}};
  for (const std::vector<MeshAxis>& mesh : meshes) {
    for (NormLayout norms : {NormLayout::kReplicated, NormLayout::kSharded}) {
      if (norms == NormLayout::kSharded && mesh.back().name != "tensor") continue;
      SCOPED_TRACE(absl::StrCat(mesh[0].name, " ", Name(norms)));
      LayoutRun run;
      run.config = SmallGpt2(R"({"attn_pdrop": 0.5, "embd_pdrop": 0.5, "resid_pdrop": 0.5})");
      run.plan = LayoutPlan(mesh, 1, 2, 8);
      run.plan.norms = norms;
      run.updates = 2;  // the second shows the random state after the first
      ASSERT_OK_AND_ASSIGN(const LayoutResult without, Train(run));
      run.plan.dropout = true;
      ASSERT_OK_AND_ASSIGN(const LayoutResult kept, Train(run));
      EXPECT_NE(kept.losses, without.losses);
      for (Recomputation recomputation :
          {Recomputation::kCheap, Recomputation::kSelective, Recomputation::kBlock}) {
        SCOPED_TRACE(Name(recomputation));
        run.plan.recomputation = recomputation;
        ASSERT_OK_AND_ASSIGN(const LayoutResult again, Train(run));
        ExpectSameBits(again, kept);
      }
    }
  }
}

}  // namespace
}  // namespace colossus
