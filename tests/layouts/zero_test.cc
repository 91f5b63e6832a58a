// ZeRO stages on models: the same bits at one mesh, whatever the stage, recomputation, order of
// micro-batches and precision, and the same numbers as one rank.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/layouts/compare.h"
#include "tests/layouts/layout_run.h"
#include "tests/parity/small_trainer.h"

namespace colossus {
namespace {

struct Row {
  const char* family;
  std::vector<MeshAxis> mesh;
  int64_t micro_batches;
  DType compute = DType::kF32;
  SequenceParallelism sequence = SequenceParallelism::kRing;
};

LayoutRun RunOf(const Row& row) {
  LayoutRun run;
  run.config = row.family == std::string("gpt2")
                   ? SmallGpt2(R"({"vocab_size": 20, "n_head": 4, "n_embd": 16})")
                   : SmallLlama(R"({"vocab_size": 20})");
  run.plan = LayoutPlan(row.mesh, 1, row.micro_batches, 8);
  run.plan.precision = {row.compute, row.compute};
  run.plan.sequence = row.sequence;
  run.updates = 2;
  run.clip_norm = 1;
  if (row.compute == DType::kF16) run.loss_scale = 1024;
  return run;
}

TEST(ZeroLayoutsTest, StagesHaveTheSameBits) {
  const Row rows[] = {
      {"gpt2", {{"data", 2}}, 1},
      {"llama", {{"data", 3}}, 3, DType::kBF16},
      {"gpt2", {{"data", 2}}, 3, DType::kF16},
      {"llama", {{"data", 2}}, 1, DType::kF64},
      {"gpt2", {{"data", 2}, {"tensor", 2}}, 1, DType::kBF16},
      {"llama", {{"sequence", 2}}, 1},
      {"gpt2", {}, 3, DType::kBF16},
      {"llama", {}, 2},
      {"llama", {{"tensor", 2}, {"data", 2}}, 3},
      {"gpt2", {{"sequence", 2}, {"data", 2}}, 1, DType::kF32, SequenceParallelism::kAllToAll},
  };
  const Recomputation recomputations[] = {Recomputation::kNone, Recomputation::kCheap,
                                          Recomputation::kSelective, Recomputation::kBlock};
  for (const Row& row : rows) {
    std::string name = absl::StrCat(row.family, " ", Name(row.compute));
    for (const MeshAxis& axis : row.mesh) absl::StrAppend(&name, " ", axis.name, "=", axis.size);
    SCOPED_TRACE(name);
    LayoutRun run = RunOf(row);
    ASSERT_OK_AND_ASSIGN(const LayoutResult first, Train(run));
    for (int zero = 0; zero <= 3; ++zero) {
      run.plan.zero = zero;
      run.plan.recomputation = recomputations[zero];
      run.plan.accumulation_order =
          zero == 0 ? AccumulationOrder::kHorizontal : AccumulationOrder::kVertical;
      SCOPED_TRACE(absl::StrCat("ZeRO ", zero, ", ", Name(run.plan.recomputation), ", ",
                                Name(run.plan.accumulation_order)));
      ASSERT_OK_AND_ASSIGN(const LayoutResult result, Train(run));
      ExpectSameBits(result, first);
    }
  }
}

TEST(ZeroLayoutsTest, EqualsOneRank) {
  const Row rows[] = {
      {"gpt2", {{"data", 2}}, 3},
      {"llama", {{"data", 2}, {"tensor", 2}}, 1},
  };
  for (const Row& row : rows) {
    for (int zero : {2, 3}) {
      SCOPED_TRACE(absl::StrCat(row.family, ", ZeRO ", zero));
      LayoutRun run = RunOf(row);
      run.optimizer.kind = Optimizer::Kind::kSgd;
      run.plan.zero = zero;
      ASSERT_OK_AND_ASSIGN(const LayoutResult actual, Train(run));
      LayoutRun alone = run;
      alone.plan.micro_batch *= run.plan.AxisSize("data");
      alone.plan.stages = {StagePlan{}};
      alone.plan.zero = 0;
      ASSERT_OK_AND_ASSIGN(const LayoutResult expected, Train(alone));
      ExpectEqual(actual, expected);
    }
  }
}

// Protects: layer-wise updates on ranks, with every ZeRO stage: sums over ranks, chunks that are
// read or gathered late, tied tables whose gradient is complete last.
TEST(ZeroLayoutsTest, LayerwiseUpdatesHaveTheBitsOfWholeOnes) {
  const Row rows[] = {
      {"gpt2", {{"data", 2}}, 1},
      {"llama", {{"data", 3}}, 3, DType::kBF16},
      {"gpt2", {{"data", 2}, {"tensor", 2}}, 2, DType::kBF16},
      {"llama", {{"sequence", 2}}, 1},
      {"llama", {{"tensor", 2}}, 2, DType::kBF16},
      {"gpt2", {{"tensor", 2}}, 1},
  };
  for (const Row& row : rows) {
    std::string name = absl::StrCat(row.family, " ", Name(row.compute));
    for (const MeshAxis& axis : row.mesh) absl::StrAppend(&name, " ", axis.name, "=", axis.size);
    SCOPED_TRACE(name);
    LayoutRun run = RunOf(row);
    run.clip_norm = 0;
    ASSERT_OK_AND_ASSIGN(const LayoutResult whole, Train(run));
    run.plan.update = UpdateTime::kLayerwise;
    for (int zero = 0; zero <= 3; ++zero) {
      run.plan.zero = zero;
      run.plan.recomputation = zero % 2 == 0 ? Recomputation::kBlock : Recomputation::kNone;
      run.plan.accumulation_order =
          zero == 2 ? AccumulationOrder::kHorizontal : AccumulationOrder::kAuto;
      SCOPED_TRACE(absl::StrCat("ZeRO ", zero));
      ASSERT_OK_AND_ASSIGN(LayoutResult layerwise, Train(run));
      ASSERT_EQ(layerwise.norms.size(), whole.norms.size());
      for (size_t i = 0; i < whole.norms.size(); ++i) {
        // Squares of blocks are added in another order, in f64: n additions, of positive numbers.
        EXPECT_LE(std::abs(layerwise.norms[i] - whole.norms[i]), 1e-12 * whole.norms[i]);
      }
      layerwise.norms = whole.norms;
      ExpectSameBits(layerwise, whole);
    }
  }
}

}  // namespace
}  // namespace colossus
