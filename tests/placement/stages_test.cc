// Pipelines whose ranks have devices smaller than their stage: each places its own step, and every
// schedule gives the bits of the run without caps.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gemini/placement.h"
#include "gtest/gtest.h"
#include "parallel/pipeline/schedule_list.h"
#include "parallel/plan.h"
#include "tests/layouts/compare.h"
#include "tests/layouts/layout_run.h"
#include "tests/parity/small_trainer.h"
#include "tests/placement/placed_run.h"

namespace colossus {
namespace {

struct Row {
  std::string schedule;
  std::vector<MeshAxis> mesh;
  int64_t micro_batches = 4;
  int zero = 0;
  const char* family = "gpt2";
  DType compute = DType::kF32;
  Recomputation recomputation = Recomputation::kNone;
};

std::string TextOf(const Row& row) {
  std::string text = absl::StrCat(row.family, " ", row.schedule, ", ", row.micro_batches,
                                  " micro-batches, ZeRO ", row.zero, ", ", Name(row.compute), ", ",
                                  Name(row.recomputation));
  for (const MeshAxis& axis : row.mesh) absl::StrAppend(&text, " ", axis.name, "=", axis.size);
  return text;
}

// Four layers: six blocks with embedding and head, whose weight is the embedding's in gpt2.
LayoutRun RunOf(const Row& row) {
  LayoutRun run;
  run.config = row.family == std::string("gpt2")
                   ? SmallGpt2(R"({"vocab_size": 24, "n_head": 2, "n_embd": 16, "n_layer": 4})")
                   : SmallLlama(R"({"vocab_size": 24, "num_hidden_layers": 4})");
  run.plan = LayoutPlan(row.mesh, 1, row.micro_batches, 8);
  run.plan.schedule = row.schedule;
  run.plan.zero = row.zero;
  run.plan.precision = {row.compute, row.compute};
  run.plan.recomputation = row.recomputation;
  run.updates = 2;
  run.clip_norm = 0.1;  // so that bits of the norm show
  return run;
}

Caps RandomCaps(const DeviceRange& range, const Caps& smallest, bool disk,
                std::mt19937_64& random) {
  Caps caps;
  for (size_t rank = 0; rank < range.plain.size(); ++rank) {
    caps.device.push_back(Between(smallest.device[rank], range.plain[rank], random));
  }
  if (random() % 4 == 0) caps.policy = PlacementPolicy::kCpu;
  if (!disk) return caps;
  caps.host = 100'000 + static_cast<int64_t>(random() % 600'000);
  caps.disk = int64_t{16} << 20;
  return caps;
}

// How many caps were refused of those that a host may be too small for.
struct Count {
  int tried = 0, refused = 0;
};

// Protects: any caps that are accepted give the uncapped run's bits, the smallest ones too, which
// are at most half above the bound.
void Fuzz(const Row& row, int tries, std::mt19937_64& random, Count& count) {
  SCOPED_TRACE(TextOf(row));
  const LayoutRun run = RunOf(row);
  ASSERT_OK_AND_ASSIGN(const LayoutResult expected, Train(run));
  const DeviceRange range = DeviceRangeOf(run);
  Caps smallest;
  for (int percent = 100; smallest.device.empty(); percent += 10) {
    const Caps caps = OfBound(range, percent);
    SCOPED_TRACE(absl::StrCat(caps.ToString(), ", ", percent, " % of the bound"));
    const absl::StatusOr<LayoutResult> result = Train(Capped(run, caps, random()));
    if (absl::IsResourceExhausted(result.status()) && percent < 150) continue;
    ASSERT_OK(result.status());
    ExpectSameBits(*result, expected);
    smallest = caps;
    std::printf("%s: accepted at %d %% of the bound\n", TextOf(row).c_str(), percent);
  }
  for (int k = 0; k < tries; ++k) {
    const bool disk = k % 2 == 1;
    const Caps caps = RandomCaps(range, smallest, disk, random);
    SCOPED_TRACE(caps.ToString());
    const absl::StatusOr<LayoutResult> result = Train(Capped(run, caps, random()));
    count.tried += disk;
    if (disk && absl::IsResourceExhausted(result.status())) {
      ++count.refused;
      continue;
    }
    ASSERT_OK(result.status());
    ExpectSameBits(*result, expected);
  }
}

void FuzzAll(const std::vector<Row>& rows, int tries) {
  std::mt19937_64 random(TestSeed());
  Count count;
  for (const Row& row : rows) {
    Fuzz(row, tries, random, count);
    if (::testing::Test::HasFailure()) return;
  }
  std::printf("%d of %d small hosts refused\n", count.refused, count.tried);
  EXPECT_LE(count.refused, count.tried / 2);
}

// On two or three stages, as the seed draws.
TEST(PlacedStagesTest, EverySchedule) {
  std::mt19937_64 random(TestSeed());
  std::vector<Row> rows;
  for (const Schedule& schedule : AllSchedules()) {
    const int64_t stages = 2 + static_cast<int64_t>(random() % 2);
    rows.push_back({std::string(schedule.name), {{"stage", stages}}, 2 * stages});
    const LayoutRun run = RunOf(rows.back());
    ASSERT_OK(Validate(run.plan, run.config)) << TextOf(rows.back());
  }
  FuzzAll(rows, 2);
}

TEST(PlacedStagesTest, WithOtherAxes) {
  FuzzAll({{"1f1b", {{"stage", 2}, {"data", 2}}, 4, 3, "gpt2", DType::kBF16, Recomputation::kBlock},
           {"zb-v",
            {{"stage", 2}, {"tensor", 2}},
            4,
            0,
            "gpt2",
            DType::kF32,
            Recomputation::kCheap},
           {"gpipe", {{"stage", 2}, {"data", 2}}, 2, 2, "llama"},
           {"interleaved", {{"stage", 2}, {"data", 2}}, 4, 1, "llama", DType::kBF16},
           {"zb-h2", {{"stage", 2}, {"sequence", 2}}, 4, 3, "llama"},
           {"zb-h1", {{"stage", 4}}, 5, 0, "gpt2", DType::kF32, Recomputation::kSelective}},
          2);
}

// The others of a pipeline do not care which of them have room for everything.
TEST(PlacedStagesTest, SomeStagesFit) {
  const LayoutRun run = RunOf({"1f1b", {{"stage", 3}}, 4});
  ASSERT_OK_AND_ASSIGN(const LayoutResult expected, Train(run));
  const Caps tight = OfBound(DeviceRangeOf(run), 150);
  for (size_t placed = 0; placed < 3; ++placed) {
    SCOPED_TRACE(placed);
    Caps caps{.device = std::vector<int64_t>(3, int64_t{1} << 24),
              .place_only_what_does_not_fit = true};
    caps.device[placed] = tight.device[placed];
    ASSERT_OK_AND_ASSIGN(const LayoutResult result, Train(Capped(run, caps, placed)));
    ExpectSameBits(result, expected);
  }
}

TEST(PlacedStagesTest, FixedSplit) {
  for (const char* schedule : {"gpipe", "zb-v"}) {
    SCOPED_TRACE(schedule);
    const LayoutRun run = RunOf({schedule, {{"stage", 2}}, 4});
    ASSERT_OK_AND_ASSIGN(const LayoutResult expected, Train(run));
    const Caps caps{.device = DeviceRangeOf(run).plain, .policy = PlacementPolicy::kStatic};
    ASSERT_OK_AND_ASSIGN(const LayoutResult result, Train(Capped(run, caps, TestSeed())));
    ExpectSameBits(result, expected);
  }
}

// No stage may choose by itself what all compute again: the one whose device is too small for it
// would send what the others do not expect.
TEST(PlacedStagesTest, RecomputationIsChosenAlike) {
  LayoutRun run = RunOf({"1f1b", {{"stage", 2}}, 4});
  ASSERT_OK_AND_ASSIGN(const LayoutResult expected, Train(run));
  const DeviceRange range = DeviceRangeOf(run);
  run.plan.recomputation = Recomputation::kAuto;
  const Caps caps{.device = {*std::max_element(range.bound.begin(), range.bound.end()) * 2}};
  ASSERT_OK_AND_ASSIGN(const LayoutResult result, Train(Capped(run, caps, TestSeed())));
  ExpectSameBits(result, expected);
}

}  // namespace
}  // namespace colossus
