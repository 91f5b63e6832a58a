// Pipelines: every schedule on real ranks, with the bits of one rank that accumulates the same
// micro-batches.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/dtype.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "parallel/pipeline/schedule_list.h"
#include "parallel/plan.h"
#include "tests/layouts/compare.h"
#include "tests/layouts/layout_run.h"
#include "tests/parity/small_trainer.h"

namespace colossus {
namespace {

Optimizer Sgd() {
  Optimizer optimizer;
  optimizer.kind = Optimizer::Kind::kSgd;
  return optimizer;
}

// The same plan without stages.
Plan OneStage(Plan plan) {
  plan.stages.resize(1);
  plan.schedule = Plan().schedule;
  plan.chunks = 0;
  plan.borders.clear();
  return plan;
}

struct Row {
  const char* schedule = "1f1b";
  int stages = 2;
  int64_t micro_batches = 4;
  int chunks = 0;
  std::vector<std::string> borders = {};
  const char* family = "gpt2";
};

// Six layers: eight blocks with embedding and head; the output weight is the embedding's.
LayoutRun RunOf(const Row& row) {
  LayoutRun run;
  run.config = row.family == std::string("gpt2")
                   ? SmallGpt2(R"({"n_layer": 6, "n_head": 4, "n_embd": 16,
                                    "tie_word_embeddings": true})")
                   : SmallLlama(R"({"num_hidden_layers": 6})");
  run.plan = LayoutPlan({{"stage", row.stages}}, 2, row.micro_batches, 8);
  run.plan.schedule = row.schedule;
  run.plan.chunks = row.chunks;
  run.plan.borders = row.borders;
  run.optimizer = Sgd();
  run.clip_norm = 0.1;  // so that bits of the norm show
  run.updates = 2;
  return run;
}

void ExpectBits(const LayoutRun& run, const LayoutResult& expected) {
  ASSERT_OK_AND_ASSIGN(const LayoutResult actual, Train(run));
  ExpectSameBits(actual, expected);
}

void ExpectBitsOfOneStage(const LayoutRun& run) {
  LayoutRun one = run;
  one.plan = OneStage(run.plan);
  ASSERT_OK_AND_ASSIGN(const LayoutResult expected, Train(one));
  ExpectBits(run, expected);
}

std::string Text(const Row& row) {
  return absl::StrCat(row.family, " ", row.schedule, " stages ", row.stages, " micro-batches ",
                      row.micro_batches, " borders ", absl::StrJoin(row.borders, ","));
}

TEST(StagesTest, TwoStages) {
  for (const Row& row : std::vector<Row>{{"gpipe", 2, 3}, {"1f1b", 2, 3}}) {
    SCOPED_TRACE(Text(row));
    ExpectBitsOfOneStage(RunOf(row));
    if (HasFailure()) return;
  }
}

// All schedules, with fewer, as many and more micro-batches than stages, where they are defined.
TEST(StagesTest, EverySchedule) {
  std::map<int64_t, LayoutResult> expected;  // by micro-batches
  int ran = 0;
  for (const Schedule& schedule : AllSchedules()) {
    for (int stages : {2, 3, 4}) {
      for (int64_t micro_batches : std::set<int64_t>{1, stages - 1, stages, 2 * stages}) {
        LayoutRun run = RunOf({.stages = stages, .micro_batches = micro_batches});
        run.plan.schedule = std::string(schedule.name);
        if (!Validate(run.plan, run.config).ok()) continue;
        SCOPED_TRACE(
            absl::StrCat(schedule.name, " stages ", stages, " micro-batches ", micro_batches));
        if (expected.count(micro_batches) == 0) {
          LayoutRun one = run;
          one.plan = OneStage(run.plan);
          ASSERT_OK_AND_ASSIGN(expected[micro_batches], Train(one));
        }
        ExpectBits(run, expected[micro_batches]);
        if (HasFailure()) return;
        ++ran;
      }
    }
  }
  // 11 sizes each, but that interleaved is for a multiple of the stages: 6.
  EXPECT_EQ(ran, 9 * 11 + 6);
}

TEST(StagesTest, UnevenCuts) {
  for (const Row& row :
       std::vector<Row>{{"1f1b", 2, 4, 0, {"h.0"}},
                        {"gpipe", 2, 3, 0, {"head"}},
                        {"zb-h1", 3, 6, 0, {"h.0", "h.5"}},
                        {"zb-v", 2, 4, 0, {"h.0", "h.1", "head"}},
                        {"interleaved", 2, 4, 3, {"h.0", "h.1", "h.2", "h.4", "h.5"}},
                        {"looped", 2, 2, 3, {}},
                        {"1f1b", 4, 5, 0, {"h.3", "h.4", "head"}, "llama"},
                        {"zb-v", 3, 6, 0, {}, "llama"}}) {
    SCOPED_TRACE(Text(row));
    ExpectBitsOfOneStage(RunOf(row));
    if (HasFailure()) return;
  }
}

// Stages of several ranks: the bits of the same mesh without stages.
TEST(StagesTest, WithOtherAxes) {
  struct Layout {
    std::vector<MeshAxis> mesh;
    const char* schedule;
    int zero;
    const char* family = "gpt2";
  };
  for (const Layout& layout :
       std::vector<Layout>{{{{"stage", 2}, {"data", 2}}, "1f1b", 0},
                           {{{"stage", 2}, {"data", 2}}, "zb-h1", 1},
                           {{{"stage", 2}, {"data", 2}}, "gpipe", 2, "llama"},
                           {{{"stage", 2}, {"data", 2}}, "zb-v", 3},
                           {{{"stage", 3}, {"data", 2}}, "1f1b", 3, "llama"},
                           {{{"stage", 2}, {"tensor", 2}}, "zb-v", 0},
                           {{{"stage", 2}, {"tensor", 2}}, "1f1b", 0, "llama"},
                           {{{"stage", 2}, {"sequence", 2}}, "interleaved", 2},
                           {{{"stage", 2}, {"data", 2}, {"tensor", 2}}, "zb-h2", 3}}) {
    LayoutRun run = RunOf({.family = layout.family});
    run.plan = LayoutPlan(layout.mesh, 1, 4, 8);
    run.plan.schedule = layout.schedule;
    run.plan.zero = layout.zero;
    std::string text = absl::StrCat(layout.schedule, " zero ", layout.zero, " ", layout.family);
    for (const MeshAxis& axis : layout.mesh) absl::StrAppend(&text, " ", axis.name, axis.size);
    SCOPED_TRACE(text);
    ExpectBitsOfOneStage(run);
    if (HasFailure()) return;
  }
}

// Parameters that an override splits have chunks of their own; squares are summed in the model's
// order all the same.
TEST(StagesTest, WithOverrides) {
  for (int zero : {0, 3}) {
    SCOPED_TRACE(zero);
    LayoutRun run = RunOf({});
    run.plan = LayoutPlan({{"stage", 2}, {"data", 2}}, 1, 4, 8);
    run.plan.zero = zero;
    run.plan.chunk_elements = 800;
    run.plan.overrides = {{"*.h.0.mlp.c_proj.weight", {{"data"}}}};
    ExpectBitsOfOneStage(run);
  }
}

// Whatever times an order goes by, measured ones among them, and however little it may keep.
TEST(StagesTest, SearchedByOtherTimes) {
  struct Layout {
    std::vector<MeshAxis> mesh;
    int chunks = 1, zero = 0;
    const char* family = "gpt2";
  };
  for (const Layout& layout : std::vector<Layout>{{{{"stage", 3}}},
                                                  {{{"stage", 2}}, 2, 0, "llama"},
                                                  {{{"stage", 2}, {"data", 2}}, 1, 3}}) {
    LayoutRun run = RunOf({.family = layout.family});
    run.plan = LayoutPlan(layout.mesh, 1, 5, 8);
    run.plan.schedule = "searched";
    run.plan.chunks = layout.chunks;
    run.plan.zero = layout.zero;
    LayoutRun one = run;
    one.plan = OneStage(run.plan);
    ASSERT_OK_AND_ASSIGN(const LayoutResult expected, Train(one));
    for (const char* times : {"measured", "made up", "made up, little room"}) {
      SCOPED_TRACE(absl::StrCat(times, " chunks ", layout.chunks, " zero ", layout.zero));
      run.trial = times == std::string("measured");
      run.change_options = [&](int, TrainingOptions& options) {
        if (run.trial) return;
        const size_t stages = run.plan.stages.size();
        options.pipeline.measured.emplace();
        options.pipeline.measured->communication = 2;
        for (size_t p = 0; p < stages * static_cast<size_t>(layout.chunks); ++p) {
          const auto seconds = static_cast<double>(p);
          options.pipeline.measured->parts.push_back({1 + seconds, 5 - seconds, 1 + 2 * seconds});
        }
        if (times != std::string("made up")) options.pipeline.room.emplace(stages, 1.5);
      };
      ExpectBits(run, expected);
      if (HasFailure()) return;
    }
  }
}

// FIELD-CASES A9: the gradient is the mean over the tokens of the update, whatever the schedule and
// however tokens are spread over micro-batches; the loss is the one that was differentiated.
TEST(StagesTest, GradientScaleUnderSchedules) {
  for (const std::vector<int>& counts : std::vector<std::vector<int>>{{5, 5, 5, 5}, {1, 1, 1, 5}}) {
    LayoutRun run = RunOf({});
    run.clip_norm = 0;
    run.updates = 1;
    run.row = [&counts](int64_t row, std::vector<int32_t>& ids, std::vector<int32_t>& labels,
                        std::vector<int32_t>&, std::vector<int32_t>&) {
      for (size_t t = 0; t < ids.size(); ++t) {
        ids[t] = static_cast<int32_t>((7 * row + 3 * static_cast<int64_t>(t)) % 13);
        const bool counts_here = row % 2 == 0 && static_cast<int>(t) < counts[row / 2 % 4];
        labels[t] = counts_here ? static_cast<int32_t>((row + static_cast<int64_t>(t)) % 13) : -100;
      }
    };
    LayoutRun at_once = run;
    at_once.plan = OneStage(run.plan);
    at_once.plan.micro_batch = 8;
    at_once.plan.micro_batches = 1;
    ASSERT_OK_AND_ASSIGN(const LayoutResult mean, Train(at_once));
    for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zb-v"}) {
      SCOPED_TRACE(absl::StrCat(schedule, " ", counts[0]));
      run.plan.schedule = schedule;
      ExpectBitsOfOneStage(run);
      ASSERT_OK_AND_ASSIGN(const LayoutResult actual, Train(run));
      ExpectEqual(actual, mean);
    }
  }
}

// FIELD-CASES A10 with stages: dropout, and whatever is computed again, the bits of one stage that
// keeps everything.
TEST(StagesTest, RecomputationWithDropout) {
  LayoutRun run = RunOf({"1f1b", 2, 4});
  run.config = SmallGpt2(R"({"n_layer": 2, "n_head": 4, "n_embd": 16, "attn_pdrop": 0.5,
                             "embd_pdrop": 0.5, "resid_pdrop": 0.5})");
  run.plan.dropout = true;
  LayoutRun one = run;
  one.plan = OneStage(run.plan);
  ASSERT_OK_AND_ASSIGN(const LayoutResult expected, Train(one));
  for (Recomputation recomputation : {Recomputation::kNone, Recomputation::kCheap,
                                      Recomputation::kSelective, Recomputation::kBlock}) {
    for (const char* schedule : {"1f1b", "zb-v"}) {
      SCOPED_TRACE(absl::StrCat(Name(recomputation), " ", schedule));
      run.plan.schedule = schedule;
      run.plan.recomputation = recomputation;
      ExpectBits(run, expected);
      if (HasFailure()) return;
    }
  }
}

// FIELD-CASES A5: copies of a tied embedding stay the same bits (Train checks that), and are those
// of one rank.
TEST(StagesTest, TiedEmbeddingOnTwoStages) {
  for (int zero : {0, 1}) {
    SCOPED_TRACE(zero);
    LayoutRun run = RunOf({});
    run.config = SmallGpt2(R"({"n_layer": 2, "n_head": 4, "n_embd": 16,
                               "tie_word_embeddings": true})");
    run.plan = LayoutPlan({{"stage", 2}, {"data", 2}}, 1, 2, 8);
    run.plan.zero = zero;
    run.optimizer = Optimizer();
    run.learning_rate = 1e-3;
    run.updates = 20;
    ExpectBitsOfOneStage(run);
  }
}

// In 16 bits, with packed rows, and an optimizer with moments and masters.
TEST(StagesTest, NarrowAndPacked) {
  for (const char* family : {"gpt2", "llama"}) {
    SCOPED_TRACE(family);
    LayoutRun run = RunOf({"zb-v", 2, 4, 0, {}, family});
    run.plan.precision = {DType::kBF16, DType::kBF16};
    run.plan.packed = true;
    run.optimizer = Optimizer();
    run.learning_rate = 1e-3;
    ExpectBitsOfOneStage(run);
  }
}

}  // namespace
}  // namespace colossus
