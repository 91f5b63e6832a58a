// Real steps on the null device, with the memory manager, over device caps: what is accepted, what
// is copied beside the lower bound, and how much of it hides.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/status_matchers.h"
#include "gemini/memory_bound.h"
#include "gemini/placement.h"
#include "gemini/report.h"
#include "gemini/traffic.h"
#include "gtest/gtest.h"
#include "parallel/plan.h"
#include "tensor/exec/placement.h"
#include "tests/placement/placed_preset.h"

namespace colossus {
namespace {

int64_t PlainBytes(const StepTrace& trace) {
  const TierBytes tiers = {int64_t{1} << 60, 0, 0};
  const absl::StatusOr<Placement> placement = GeminiPlacer({}).Place(trace, tiers);
  EXPECT_OK(placement);
  return ReportPlacement(trace, *placement, tiers, {}).tiers[0].peak;
}

// Share of copy time that the update does not wait for, in the device's own time.
double HiddenShare(const PresetJob& job, const PresetRun& run, int64_t cap) {
  const PresetRun free = RunPreset(job, {.device = cap, .link_bytes_per_second = 1e18});
  EXPECT_OK(free.status);
  const double copying = run.report.time.copying;
  return copying > 0 ? 1 - (run.seconds - free.seconds) / copying : 1;
}

// Protects: accepted from 1.25 times the bound on; model data within 5 % of what must move; at
// least `hidden` of the copying hides wherever it is a part of the time that matters.
void Sweep(const PresetJob& job, const std::vector<int>& percents, double hidden) {
  const StepTrace trace = TraceOfPreset(job);
  const MemoryBound bound = DeviceBound(trace);
  const int64_t lowest = bound.bytes * 5 / 4, plain = PlainBytes(trace);
  std::printf("%s: %zu instructions, %zu buffers; bound %.3f GB (%s), plain %.3f GB\n",
              job.preset.c_str(), trace.instructions.size(), trace.buffers.size(),
              bound.bytes / 1e9, Describe(trace, bound).c_str(), plain / 1e9);
  for (int percent : percents) {
    const int64_t cap = lowest + (plain - lowest) * percent / 100;
    SCOPED_TRACE(absl::StrCat("cap ", cap));
    const PresetRun run = RunPreset(job, {.device = cap});
    ASSERT_OK(run.status);
    EXPECT_LE(run.device_bytes, cap);
    const int64_t least = run.report.bound.model();
    const int64_t moved = ModelBytes(run.report.moved);
    const double share = HiddenShare(job, run, cap);
    std::printf(
        "  %.3f GB (%.2f x bound, asked %d, sum %.3f): model %.3f GB, least %.3f; "
        "activations %.3f GB; %.3f s, copying %.3f: %.1f %% hidden\n",
        cap / 1e9, 1.0 * cap / bound.bytes, run.asked, run.report.tiers[0].peak / 1e9, moved / 1e9,
        least / 1e9, ActivationBytes(run.report.moved) / 1e9, run.seconds, run.report.time.copying,
        100 * share);
    EXPECT_GE(moved, least);
    // Sums that micro-batches in turn add to come and go too: their least is not known so well.
    if (job.micro_batches == 1) {
      EXPECT_LE(moved, 1.05 * least);
    }
    if (run.report.time.copying > 0.05 * run.seconds) {
      EXPECT_GE(share, hidden);
    }
  }
}

TEST(PresetPlacementTest, Gpt2Small) {
  // Its embedding alone, first in and last out, is a large part of all copies.
  Sweep({"gpt2-124m", 4, 1024, 1}, {0, 10, 35, 75, 105}, 0.5);
}

TEST(PresetPlacementTest, MicroBatchesInTurn) { Sweep({"gpt2-124m", 1, 256, 3}, {0, 50}, 0); }

// 4096 tokens are 1.6 times the break-even of 40 TFLOP/s behind 12 GB/s.
TEST(PresetPlacementTest, Gpt2Large) { Sweep({"gpt2-1.5b", 4, 1024, 1}, {0, 5, 20, 50, 105}, 0.9); }

// Protects: block by block, all micro-batches of each, what moves of model data is within 5 % of
// its bound, and at most 6M bytes (M parameters) however many micro-batches there are.
TEST(PresetPlacementTest, VerticalMicroBatchesMoveNoMoreThanOne) {
  for (const int64_t micro_batches : {2, 4}) {
    SCOPED_TRACE(absl::StrCat(micro_batches, " micro-batches"));
    PresetJob job = {"gpt2-1.5b", 1, 1024, micro_batches};
    job.order = AccumulationOrder::kVertical;
    const PresetRun run = RunPreset(job, {.device = 2'000'000'000});
    ASSERT_OK(run.status);
    const int64_t moved = ModelBytes(run.report.moved);
    std::printf("%lld micro-batches: %.3f GB, least %.3f\n", static_cast<long long>(micro_batches),
                moved / 1e9, run.report.bound.model() / 1e9);
    EXPECT_LE(moved, 1.05 * run.report.bound.model());
    EXPECT_LE(moved, 6 * run.parameters);
  }
}

// The headlines, as questions to the placer alone.
void Ask(const PresetJob& job, const TierBytes& tiers, PlacementReport* report) {
  const StepTrace trace = TraceOfPreset(job);
  const GeminiPlacer placer({.link_bytes_per_second = 12e9, .disk_bytes_per_second = 1.3e9});
  ASSERT_OK_AND_ASSIGN(Placement placement, placer.Place(trace, tiers));
  EXPECT_OK(CheckPlacement(trace, placement));
  *report = ReportPlacement(trace, placement, tiers,
                            {.link_bytes_per_second = 12e9, .disk_bytes_per_second = 1.3e9},
                            kUpdatePhases);
  std::printf("%s\n%s", job.preset.c_str(), ToText(*report).c_str());
  EXPECT_LE(ModelBytes(report->moved),
            1.05 * (report->bound.model()));
  for (const TierReport& tier : report->tiers) EXPECT_LE(tier.peak, tier.capacity);
}

TEST(PresetPlacementTest, Gpt2LargeOnSixGigabytes) {
  PlacementReport report;
  Ask({"gpt2-1.5b", 1, 1024, 1}, {6'000'000'000, 13'000'000'000, 40'000'000'000}, &report);
  Ask({"gpt2-1.5b", 1, 1024, 1}, {6'000'000'000, 8'000'000'000, 40'000'000'000}, &report);
  EXPECT_GE(report.tiers[2].homes, 4'000'000'000);
}

// Protects: 6M - C bytes, C at least 8 of 24 GB.
TEST(PresetPlacementTest, Gpt18bOn24Gigabytes) {
  PlacementReport report;
  Ask({"gpt-18b", 8, 1024, 1}, {24'000'000'000, 400'000'000'000, 0}, &report);
  EXPECT_LE(ModelBytes(report.moved), 6 * int64_t{18'437'670'912} - 8'000'000'000);
}

}  // namespace
}  // namespace colossus
