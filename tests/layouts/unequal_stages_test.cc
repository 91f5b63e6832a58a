// Pipelines whose stages have meshes of their own: "equal" to one rank (README.md), and the same
// bits whatever schedule, ZeRO stage and recomputation.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/testing/status_matchers.h"
#include "collectives/mesh.h"
#include "gemini/placement.h"
#include "gtest/gtest.h"
#include "parallel/plan.h"
#include "tensor/exec/device.h"
#include "tensor/graph/state.h"
#include "tensor/host_tensor.h"
#include "tensor/optim/update.h"
#include "tests/layouts/compare.h"
#include "tests/layouts/layout_run.h"
#include "tests/parity/small_trainer.h"

namespace colossus {
namespace {

using Meshes = std::vector<std::vector<MeshAxis>>;

std::string Text(const Meshes& meshes) {
  std::string text;
  for (const std::vector<MeshAxis>& mesh : meshes) {
    absl::StrAppend(&text, text.empty() ? "" : "/");
    for (const MeshAxis& axis : mesh) absl::StrAppend(&text, axis.name, axis.size);
  }
  return text;
}

// Rows of a micro-batch: `rows`.
LayoutRun RunOf(const Meshes& meshes, int64_t rows = 4, const char* family = "gpt2") {
  LayoutRun run;
  run.config = family == std::string("gpt2")
                   ? SmallGpt2(R"({"n_layer": 4, "n_head": 4, "n_embd": 16,
                                    "tie_word_embeddings": true})")
                   : SmallLlama(R"({"num_hidden_layers": 4})");
  run.plan = StagesPlan(meshes, 1, 2, 8);
  run.plan.micro_batch = rows / run.plan.AxisSize("data");
  run.optimizer.kind = Optimizer::Kind::kSgd;
  run.clip_norm = 0.1;
  return run;
}

LayoutRun OnOneRank(const LayoutRun& run) {
  LayoutRun one = run;
  one.plan.micro_batch *= run.plan.AxisSize("data");
  one.plan.stages = {StagePlan{}};
  one.plan.schedule = Plan().schedule;
  one.plan.chunks = 0;
  one.plan.borders.clear();
  return one;
}

void ExpectEqualToOneRank(const LayoutRun& run, const Tolerance& tolerance = {}) {
  ASSERT_OK_AND_ASSIGN(const LayoutResult expected, Train(OnOneRank(run)));
  ASSERT_OK_AND_ASSIGN(const LayoutResult actual, Train(run));
  ExpectEqual(actual, expected, tolerance);
}

TEST(UnequalStagesTest, OneOneAndTwo) {
  ExpectEqualToOneRank(RunOf({{}, {}, {{"data", 2}}}));
}

TEST(UnequalStagesTest, EqualToOneRank) {
  struct Row {
    Meshes meshes;
    const char* schedule = "1f1b";
    int zero = 0;
    const char* family = "gpt2";
    int64_t rows = 4;
  };
  for (const Row& row : std::vector<Row>{
           {{{{"data", 2}}, {}}, "gpipe", 1},
           {{{{"data", 2}}, {{"tensor", 2}}}, "zb-h1", 3},
           {{{{"tensor", 2}}, {{"data", 2}}}, "zb-v", 2, "llama"},
           {{{}, {{"tensor", 2}}}, "interleaved", 0, "llama"},
           {{{{"data", 3}}, {{"data", 2}}}, "1f1b", 2, "gpt2", 6},
           {{{{"sequence", 2}}, {{"data", 2}}}, "zb-h2", 3},
           {{{{"data", 2}, {"tensor", 2}}, {{"sequence", 2}}, {}}, "1f1b", 3, "llama"},
           {{{{"tensor", 2}}, {{"data", 2}, {"sequence", 2}}}, "looped", 1}}) {
    SCOPED_TRACE(absl::StrCat(Text(row.meshes), " ", row.schedule, " zero ", row.zero, " ",
                              row.family));
    LayoutRun run = RunOf(row.meshes, row.rows, row.family);
    run.plan.schedule = row.schedule;
    run.plan.zero = row.zero;
    run.plan.micro_batches = 6;
    run.updates = 2;
    ExpectEqualToOneRank(run);
    if (HasFailure()) return;
  }
}

// Ways to split attention and products that the other stage does not have.
TEST(UnequalStagesTest, OtherLayouts) {
  LayoutRun run = RunOf({{{"sequence", 2}}, {{"tensor", 2}}, {}});
  run.plan.sequence = SequenceParallelism::kAllToAll;
  ExpectEqualToOneRank(run);
  run = RunOf({{{"tensor", 4}}, {{"data", 2}}});
  run.plan.tensor_layout = TensorLayout::k2d;
  ExpectEqualToOneRank(run);
  // Seven positions are padded for two of the stages, and an odd vocabulary for one.
  run = RunOf({{{"sequence", 2}}, {{"tensor", 2}}, {}});
  run.plan.sequence_length = 7;
  ExpectEqualToOneRank(run);
}

TEST(UnequalStagesTest, SameBits) {
  LayoutRun run = RunOf({{{"data", 2}}, {{"data", 2}, {"tensor", 2}}});
  run.plan.micro_batches = 4;
  run.updates = 2;
  run.config = SmallGpt2(R"({"n_layer": 2, "n_head": 4, "n_embd": 16, "attn_pdrop": 0.5,
                             "embd_pdrop": 0.5, "resid_pdrop": 0.5,
                             "tie_word_embeddings": true})");
  run.plan.dropout = true;
  ASSERT_OK_AND_ASSIGN(const LayoutResult expected, Train(run));
  ExpectEqualToOneRank(run);
  struct Row {
    const char* schedule;
    int zero;
    Recomputation recomputation;
  };
  for (const Row& row : {Row{"gpipe", 1, Recomputation::kCheap},
                         Row{"zb-h1", 2, Recomputation::kNone},
                         Row{"1f1b", 3, Recomputation::kBlock}}) {
    SCOPED_TRACE(absl::StrCat(row.schedule, " ", row.zero, " ", Name(row.recomputation)));
    run.plan.schedule = row.schedule;
    run.plan.zero = row.zero;
    run.plan.recomputation = row.recomputation;
    ASSERT_OK_AND_ASSIGN(const LayoutResult actual, Train(run));
    ExpectSameBits(actual, expected);
  }
}

// States on the host, on devices that behave like GPUs and run their work late.
TEST(UnequalStagesTest, PlacementChangesNoBit) {
  LayoutRun run = RunOf({{{"data", 2}}, {}, {{"tensor", 2}}});
  run.plan.zero = 1;
  run.updates = 2;
  ASSERT_OK_AND_ASSIGN(const LayoutResult expected, Train(run));
  run.device = [](int rank, KernelList kernels) {
    absl::StatusOr<std::unique_ptr<Device>> device =
        NewCappedDevice({.memory_bytes = int64_t{1} << 26,
                         .threads = 1,
                         .kernels = std::move(kernels),
                         .late_seed = static_cast<uint64_t>(11 + rank)});
    EXPECT_OK(device);
    return *std::move(device);
  };
  run.change_options = [](int, TrainingOptions& options) {
    options.compile.program.placer =
        std::make_shared<GeminiPlacer>(GeminiOptions{.policy = PlacementPolicy::kCpu});
  };
  ASSERT_OK_AND_ASSIGN(const LayoutResult actual, Train(run));
  ExpectSameBits(actual, expected);
}

// FIELD-CASES A5: copies of a tied embedding on stages of different meshes stay the same bits
// (Train checks that).
TEST(UnequalStagesTest, TiedEmbedding) {
  for (const Meshes& meshes : std::vector<Meshes>{{{{"data", 2}}, {{"tensor", 2}}},
                                                  {{{"tensor", 2}}, {{"data", 2}}},
                                                  {{}, {{"data", 2}, {"tensor", 2}}}}) {
    SCOPED_TRACE(Text(meshes));
    LayoutRun run = RunOf(meshes);
    run.plan.zero = 1;
    run.optimizer = Optimizer();
    run.learning_rate = 1e-3;
    run.updates = 8;
    ASSERT_OK(Train(run).status());
  }
}

// FIELD-CASES A9: tokens are spread unevenly over micro-batches and over the ranks of the stages.
TEST(UnequalStagesTest, GradientScale) {
  LayoutRun run = RunOf({{}, {{"data", 2}}, {{"data", 4}}});
  run.row = [](int64_t row, std::vector<int32_t>& ids, std::vector<int32_t>& labels,
               std::vector<int32_t>&, std::vector<int32_t>&) {
    for (size_t t = 0; t < ids.size(); ++t) {
      ids[t] = static_cast<int32_t>((7 * row + 3 * static_cast<int64_t>(t)) % 13);
      const bool counts = row % 4 == 1 || (row == 2 && t < 3);
      labels[t] = counts ? static_cast<int32_t>((row + static_cast<int64_t>(t)) % 13) : -100;
    }
  };
  ExpectEqualToOneRank(run);
}

TEST(UnequalStagesTest, NarrowAndPacked) {
  for (const char* family : {"gpt2", "llama"}) {
    SCOPED_TRACE(family);
    LayoutRun run = RunOf({{{"data", 2}}, {{"tensor", 2}}, {}}, 4, family);
    run.plan.packed = true;
    run.plan.zero = 3;
    run.optimizer = Optimizer();
    run.learning_rate = 1e-3;
    run.updates = 4;
    ASSERT_OK_AND_ASSIGN(const LayoutResult exact, Train(OnOneRank(run)));
    run.plan.precision = {DType::kBF16, DType::kBF16};
    ASSERT_OK_AND_ASSIGN(const LayoutResult one_rank, Train(OnOneRank(run)));
    ASSERT_OK_AND_ASSIGN(const LayoutResult actual, Train(run));
    ExpectNearLosses(actual, one_rank, exact);
  }
}

// A norm that is not finite on one stage alone: no stage changes a bit.
TEST(UnequalStagesTest, SkipsTogether) {
  LayoutRun run = RunOf({{}, {{"data", 2}}});
  run.updates = 1;
  run.gradients_of = -1;  // NaN equals nothing
  run.loss_scale = std::exp2(126);
  run.values = [](const StateInfo& info) {
    HostTensor values = RandomValues(info);
    for (float& x : values.data<float>()) x *= 4;
    return values;
  };
  LayoutRun none = run;
  none.updates = 0;
  ASSERT_OK_AND_ASSIGN(const LayoutResult actual, Train(run));
  ASSERT_OK_AND_ASSIGN(const LayoutResult before, Train(none));
  ASSERT_EQ(actual.skipped.size(), 1u);
  EXPECT_NE(actual.skipped[0], "");
  EXPECT_EQ(actual.states, before.states);
}

}  // namespace
}  // namespace colossus
