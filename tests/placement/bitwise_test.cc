// Small models trained with the memory manager, over random caps: the same bits as without.
#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gemini/memory_bound.h"
#include "gemini/placement.h"
#include "gtest/gtest.h"
#include "parallel/compile.h"
#include "tensor/exec/placement.h"
#include "tests/layouts/compare.h"
#include "tests/layouts/layout_run.h"
#include "tests/parity/small_trainer.h"
#include "tests/placement/placed_run.h"

namespace colossus {
namespace {

struct Row {
  const char* family;
  std::vector<MeshAxis> mesh;
  int zero = 0;
  int64_t micro_batches = 1;
  DType compute = DType::kF32;
  Recomputation recomputation = Recomputation::kNone;
  UpdateTime update = UpdateTime::kWhole;
};

std::string TextOf(const Row& row) {
  std::string text = absl::StrCat(row.family, " ", Name(row.compute), ", ZeRO ", row.zero, ", ",
                                  row.micro_batches, " micro-batches, ", Name(row.recomputation),
                                  ", ", Name(row.update), " updates");
  for (const MeshAxis& axis : row.mesh) absl::StrAppend(&text, " ", axis.name, "=", axis.size);
  return text;
}

LayoutRun RunOf(const Row& row) {
  LayoutRun run;
  run.config = row.family == std::string("gpt2")
                   ? SmallGpt2(R"({"vocab_size": 24, "n_head": 2, "n_embd": 16, "n_layer": 4})")
                   : SmallLlama(R"({"vocab_size": 24, "num_hidden_layers": 3})");
  run.plan = LayoutPlan(row.mesh, 1, row.micro_batches, 8);
  run.plan.zero = row.zero;
  run.plan.precision = {row.compute, row.compute};
  run.plan.recomputation = row.recomputation;
  if (row.recomputation == Recomputation::kOptimal) {
    const absl::StatusOr<LayerBytes> bytes = BytesOfLayers(run.config, run.plan, {});
    EXPECT_OK(bytes.status());
    run.plan.recompute_budget_bytes = bytes->least + (bytes->all - bytes->least) / 4;
  }
  run.updates = 5;
  run.plan.update = row.update;
  run.clip_norm = row.update == UpdateTime::kWhole ? 1 : 0;
  if (row.compute == DType::kF16) run.loss_scale = 1024;
  return run;
}

// Protects: any cap that is accepted gives the uncapped run's bits; the smallest accepted one is
// not far above the bound.
void Fuzz(const Row& row, int tries) {
  SCOPED_TRACE(TextOf(row));
  const LayoutRun run = RunOf(row);
  ASSERT_OK_AND_ASSIGN(const LayoutResult expected, Train(run));
  const StepTrace trace = TracesOf(run)[0];
  const int64_t bound = DeviceBound(trace).bytes;
  const int64_t plain = std::max(PlainBytes(trace), 2 * bound);
  std::mt19937_64 random(TestSeed());
  int64_t smallest = 0;
  for (int percent = 100; smallest == 0; percent += 5) {
    const Caps caps = {.device = {bound * percent / 100 / 64 * 64}};
    SCOPED_TRACE(absl::StrCat(caps.ToString(), ", ", percent, " % of the bound"));
    const absl::StatusOr<LayoutResult> result = Train(Capped(run, caps, random()));
    if (result.status().code() == absl::StatusCode::kResourceExhausted && percent < 200) continue;
    ASSERT_OK(result.status());
    ExpectSameBits(*result, expected);
    smallest = caps.device[0];
    std::printf("%s: bound %lld, smallest accepted %.2f of it\n", TextOf(row).c_str(),
                static_cast<long long>(bound), 1.0 * smallest / bound);
    // On ranks too, where communication holds buffers of very unequal sizes.
    EXPECT_LE(percent, 110);
  }
  int below = 0, refused = 0;  // with a small host and a disk below it
  for (int k = 0; k < tries; ++k) {
    Caps caps;
    caps.device = {smallest + static_cast<int64_t>(random() % (plain - smallest))};
    if (random() % 4 == 0) caps.policy = PlacementPolicy::kCpu;
    if (k % 2 == 1) {
      caps.host = 100'000 + static_cast<int64_t>(random() % 600'000);
      caps.disk = int64_t{16} << 20;
      ++below;
    }
    SCOPED_TRACE(caps.ToString());
    const absl::StatusOr<LayoutResult> result = Train(Capped(run, caps, random()));
    if (caps.disk > 0 && result.status().code() == absl::StatusCode::kResourceExhausted) {
      ++refused;
      continue;
    }
    ASSERT_OK(result.status());
    ExpectSameBits(*result, expected);
  }
  std::printf("%d of %d small hosts refused\n", refused, below);
  EXPECT_LE(refused, below / 2);
  Caps fixed = {.device = {plain}, .policy = PlacementPolicy::kStatic};
  ASSERT_OK_AND_ASSIGN(const LayoutResult result, Train(Capped(run, fixed, random())));
  ExpectSameBits(result, expected);
}

TEST(PlacedBitsTest, OneRank) {
  const Row rows[] = {
      {"gpt2", {}},
      {"gpt2", {}, 0, 3, DType::kBF16},
      {"llama", {}, 0, 1, DType::kBF16, Recomputation::kBlock},
      {"llama", {}, 0, 2, DType::kF16, Recomputation::kCheap},
      {"gpt2", {}, 0, 2, DType::kBF16, Recomputation::kOptimal},
      {"llama", {}, 0, 2, DType::kBF16, Recomputation::kBlock, UpdateTime::kLayerwise},
  };
  for (const Row& row : rows) Fuzz(row, 10);
}

TEST(PlacedBitsTest, Ranks) {
  const Row rows[] = {
      {"gpt2", {{"data", 2}}, 3, 1, DType::kBF16, Recomputation::kBlock},
      {"llama", {{"data", 2}}, 3, 2},
      {"llama", {{"data", 2}}, 2, 1, DType::kBF16, Recomputation::kOptimal},
      {"gpt2", {{"tensor", 2}}, 0, 2},
      {"llama", {{"data", 2}}, 3, 2, DType::kBF16, Recomputation::kBlock, UpdateTime::kLayerwise},
  };
  for (const Row& row : rows) Fuzz(row, 8);
}

}  // namespace
}  // namespace colossus
