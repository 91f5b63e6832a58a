// One model, many layouts, the same numbers.
#include <string>

#include "absl/strings/str_cat.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
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

// The same rows and micro-batches on one rank.
LayoutRun OnOneRank(LayoutRun run) {
  run.plan.micro_batch *= run.plan.AxisSize("data");
  run.plan.stages = {StagePlan{}};
  run.plan.zero = 0;
  run.plan.sequence = SequenceParallelism::kRing;
  run.plan.tensor_layout = TensorLayout::k1d;
  return run;
}

void ExpectAsOnOneRank(const LayoutRun& run) {
  ASSERT_OK_AND_ASSIGN(const LayoutResult expected, Train(OnOneRank(run)));
  ASSERT_OK_AND_ASSIGN(const LayoutResult actual, Train(run));
  ExpectEqual(actual, expected);
}

struct Row {
  const char* family;
  std::vector<MeshAxis> mesh;
  int64_t micro_batches;
  bool packed, dropout;
  NormLayout norms;
  SequenceParallelism sequence = SequenceParallelism::kRing;
  int64_t length = 8;
  TensorLayout layout = TensorLayout::k1d;
};

constexpr SequenceParallelism kAllToAll = SequenceParallelism::kAllToAll;

std::vector<Row> Rows() {
  return {
      {"gpt2", {{"data", 2}}, 1, false, false, NormLayout::kAuto},
      {"llama", {{"data", 4}}, 3, true, false, NormLayout::kAuto},
      {"gpt2", {{"data", 3}}, 1, false, true, NormLayout::kAuto},
      {"gpt2", {{"tensor", 2}}, 1, false, true, NormLayout::kReplicated},
      {"llama", {{"tensor", 2}}, 1, false, false, NormLayout::kSharded},
      {"llama", {{"tensor", 4}}, 3, true, false, NormLayout::kSharded},
      {"llama", {{"data", 2}, {"tensor", 2}}, 1, false, false, NormLayout::kAuto},
      {"gpt2", {{"tensor", 2}, {"data", 2}}, 3, true, true, NormLayout::kAuto},
      {"gpt2", {{"sequence", 2}}, 1, false, false, NormLayout::kAuto, kAllToAll},
      {"llama", {{"sequence", 4}}, 1, true, false, NormLayout::kAuto, kAllToAll},
      {"llama", {{"sequence", 2}, {"tensor", 2}}, 3, false, false, NormLayout::kSharded, kAllToAll},
      {"gpt2",
       {{"data", 2}, {"sequence", 2}, {"tensor", 2}},
       1,
       true,
       true,
       NormLayout::kAuto,
       kAllToAll},
      {"gpt2", {{"sequence", 2}}, 1, false, true, NormLayout::kAuto},
      {"gpt2",
       {{"sequence", 2}},
       1,
       false,
       false,
       NormLayout::kAuto,
       SequenceParallelism::kRing,
       15},
      {"llama",
       {{"sequence", 3}},
       1,
       true,
       false,
       NormLayout::kAuto,
       SequenceParallelism::kRing,
       7},
      {"gpt2", {{"sequence", 2}}, 1, true, false, NormLayout::kAuto, kAllToAll, 15},
      {"gpt2", {{"sequence", 4}}, 1, false, true, NormLayout::kAuto, kAllToAll, 13},
      {"llama", {{"sequence", 4}}, 3, true, false, NormLayout::kAuto},
      {"llama", {{"tensor", 4}, {"sequence", 2}}, 1, false, false, NormLayout::kAuto},
      {"gpt2",
       {{"tensor", 4}},
       1,
       false,
       true,
       NormLayout::kAuto,
       SequenceParallelism::kRing,
       8,
       TensorLayout::k2d},
      {"llama",
       {{"tensor", 4}},
       1,
       true,
       false,
       NormLayout::kReplicated,
       SequenceParallelism::kRing,
       8,
       TensorLayout::k2d},
      {"llama",
       {{"data", 2}, {"tensor", 4}},
       3,
       false,
       false,
       NormLayout::kAuto,
       SequenceParallelism::kRing,
       7,
       TensorLayout::k2d},
  };
}

TEST(LayoutTest, EqualsOneRank) {
  for (const Row& row : Rows()) {
    std::string name = absl::StrCat(row.family, " ", Name(row.norms));
    for (const MeshAxis& axis : row.mesh) absl::StrAppend(&name, " ", axis.name, "=", axis.size);
    SCOPED_TRACE(name);
    const char* changes = R"({"n_head": 4, "n_embd": 16,
                              "attn_pdrop": 0.2, "embd_pdrop": 0.2, "resid_pdrop": 0.2})";
    LayoutRun run;
    run.config = row.family == std::string("gpt2") ? SmallGpt2(changes)
                                                   : SmallLlama(R"({"intermediate_size": 22})");
    run.plan = LayoutPlan(row.mesh, 1, row.micro_batches, row.length);
    run.plan.packed = row.packed;
    run.plan.dropout = row.dropout;
    run.plan.norms = row.norms;
    run.plan.sequence = row.sequence;
    run.plan.tensor_layout = row.layout;
    run.optimizer = Sgd();
    ExpectAsOnOneRank(run);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace colossus
