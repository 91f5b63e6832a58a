#include "gemini/traffic.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gemini/memory_bound.h"
#include "gemini/placed_time.h"
#include "gemini/placement.h"
#include "gemini/report.h"
#include "gemini/testing/training_trace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kPlenty = int64_t{1} << 50;
constexpr int kUpdatePhases = 3;
constexpr int64_t kUnit = 1 << 20;  // of a parameter

int64_t ModelToDevice(const TierTraffic& moved) {
  return Total(moved.host_to_device) -
         moved.host_to_device[static_cast<size_t>(Moved::kActivations)];
}
int64_t ModelToHost(const TierTraffic& moved) {
  return Total(moved.device_to_host) -
         moved.device_to_host[static_cast<size_t>(Moved::kActivations)];
}

StepTrace Trace(int micro_batches) {
  return TrainingTrace({.layers = 24, .micro_batches = micro_batches, .activation_bytes = 1 << 12});
}

// What one instruction needs, activations of one micro-batch, and so many parameters.
int64_t Cap(int64_t parameters) { return 52 * (1 << 12) + (1 << 18) + kUnit * (2 + parameters); }

// Protects: the bound is 6M - C streamed and 4M resident, M parameters of two bytes, and the
// placer is within 5 % of it.
TEST(TrafficTest, StreamedAndResident) {
  const StepTrace trace = Trace(1);
  const int64_t all = 48 * kUnit;
  for (int64_t kept : {0, 8, 16, 24, 32, 40, 46}) {
    SCOPED_TRACE(absl::StrCat(kept, " parameters stay"));
    const TierBytes tiers = {Cap(kept), kPlenty, 0};
    ASSERT_OK_AND_ASSIGN(Placement placement, GeminiPlacer({}).Place(trace, tiers));
    const PlacementReport report = ReportPlacement(trace, placement, tiers, {}, kUpdatePhases);
    // The last one forward is the first one backward, and forward needs no gradient.
    const int64_t stay = std::min<int64_t>(48, kept + 2) * kUnit;
    EXPECT_NEAR(report.bound.model_to_device, 2 * all - stay, 2 * kUnit);
    EXPECT_EQ(report.bound.model_to_host, all);
    const int64_t moved = ModelToDevice(report.moved) + ModelToHost(report.moved);
    const int64_t least = report.bound.model_to_device + report.bound.model_to_host;
    EXPECT_GE(moved, least);
    EXPECT_LE(moved, 1.05 * least);
    EXPECT_EQ(ModelToHost(report.moved), all);
  }
}

// Protects: over micro-batches in turn, what gradients and parameters leave of the device is used
// at least as well as by keeping all gradients: k (2M' - 2C) + C in, M' out (M' = 2M bytes).
TEST(TrafficTest, MicroBatchesInTurn) {
  const int64_t all = 48 * kUnit, kept = 18 * kUnit;
  for (int micro_batches : {1, 2, 4}) {
    SCOPED_TRACE(absl::StrCat(micro_batches, " micro-batches"));
    const StepTrace trace = Trace(micro_batches);
    const TierBytes tiers = {Cap(16) + (micro_batches > 1 ? all : 0), kPlenty, 0};
    ASSERT_OK_AND_ASSIGN(Placement placement, GeminiPlacer({}).Place(trace, tiers));
    const PlacementReport report = ReportPlacement(trace, placement, tiers, {}, kUpdatePhases);
    const int64_t moved = ModelToDevice(report.moved) + ModelToHost(report.moved);
    const int64_t least = report.bound.model_to_device + report.bound.model_to_host;
    const int64_t simple = micro_batches * 2 * (all - kept) + kept + all;
    std::printf("%d micro-batches: %.1f units, at least %.1f, simple %.1f\n", micro_batches,
                static_cast<double>(moved) / kUnit, static_cast<double>(least) / kUnit,
                static_cast<double>(simple) / kUnit);
    EXPECT_GE(moved, least);
    EXPECT_LE(moved, simple + 2 * kUnit);
  }
}

// Protects: a running sum that has to make room between any two micro-batches counts each time, out
// and in; to count only one instant would say once.
TEST(TrafficTest, SumsThatLeaveOnceAMicroBatch) {
  constexpr int64_t kSum = 10 << 12, kWorkspace = 12 << 12;
  constexpr int kMicroBatches = 4;
  StepTrace trace;
  trace.buffers = {{"sum", kSum, std::nullopt}};
  const auto add = [&trace](TracedUse use) {
    use.until = static_cast<int64_t>(trace.instructions.size());
    trace.instructions.emplace_back();
    trace.instructions.back().uses = {use};
    trace.instructions.back().seconds = 1e-3;
  };
  for (int m = 0; m < kMicroBatches; ++m) {
    trace.buffers.push_back({absl::StrCat("workspace", m), kWorkspace, std::nullopt});
    add({.buffer = m + 1, .writes = true, .overwrites = true});
    add({.buffer = 0, .reads = m > 0, .writes = true, .overwrites = m == 0});
  }
  trace.phase_end.push_back(trace.instructions.size());
  add({.buffer = 0, .reads = true});
  trace.phase_end.push_back(trace.instructions.size());
  const TierBytes tiers = {kSum + kWorkspace - 4096, kPlenty, 0};
  ASSERT_OK_AND_ASSIGN(Placement placement, GeminiPlacer({}).Place(trace, tiers));
  const PlacementReport report = ReportPlacement(trace, placement, tiers, {});
  EXPECT_EQ(report.bound.model_to_device, (kMicroBatches - 1) * kSum);
  EXPECT_EQ(report.bound.model_to_host, (kMicroBatches - 1) * kSum);
  EXPECT_EQ(ModelBytes(report.moved), report.bound.model());
}

// Protects: what is printed as least is: nothing that the placer does is below it.
TEST(TrafficTest, BoundsHoldForRandomTraces) {
  const uint64_t seed = TestSeed();
  for (uint64_t g = seed; g < seed + 300; ++g) {
    SCOPED_TRACE(absl::StrCat("seed ", g));
    std::mt19937_64 random(g);
    const StepTrace trace = RandomTrace(random);
    const int64_t bound = DeviceBound(trace).bytes;
    const TierBytes tiers = {bound + static_cast<int64_t>(random() % (bound + 1)), kPlenty, 0};
    ASSERT_OK_AND_ASSIGN(Placement placement, GeminiPlacer({}).Place(trace, tiers));
    const PlacementReport report = ReportPlacement(trace, placement, tiers, {});
    const size_t activations = static_cast<size_t>(Moved::kActivations);
    EXPECT_GE(ModelToDevice(report.moved), report.bound.model_to_device);
    EXPECT_GE(ModelToHost(report.moved), report.bound.model_to_host);
    EXPECT_GE(report.moved.host_to_device[activations], report.bound.activations_to_device);
    EXPECT_GE(report.moved.device_to_host[activations], report.bound.activations_to_host);
    EXPECT_GE(report.time.seconds, report.time.without_copies - 1e-12);
  }
}

// Protects: memory is taken in steps of 64 bytes, copies end where values end; what is printed as
// least is of copies.
TEST(TrafficTest, BoundsAreOfWhatCopiesCarry) {
  const uint64_t seed = TestSeed();
  for (uint64_t g = seed; g < seed + 100; ++g) {
    SCOPED_TRACE(absl::StrCat("seed ", g));
    std::mt19937_64 random(g);
    StepTrace trace = RandomTrace(random);
    std::vector<int64_t> copied;
    for (const TracedBuffer& buffer : trace.buffers) {
      copied.push_back(std::max<int64_t>(0, buffer.bytes - static_cast<int64_t>(random() % 64)));
    }
    const int64_t bound = DeviceBound(trace).bytes;
    const TierBytes tiers = {bound + static_cast<int64_t>(random() % (bound + 1)), kPlenty, 0};
    ASSERT_OK_AND_ASSIGN(Placement placement, GeminiPlacer({}).Place(trace, tiers));
    TrafficBound least;
    for (const TrafficBound& of : BoundTraffic(trace, placement, tiers.device, copied)) least += of;
    for (size_t b = 0; b < copied.size(); ++b) trace.buffers[b].bytes = copied[b];
    TierTraffic moved;
    for (const TierTraffic& of : PlacedTraffic(trace, placement)) moved += of;
    EXPECT_GE(ModelToDevice(moved), least.model_to_device);
    EXPECT_GE(ModelToHost(moved), least.model_to_host);
    EXPECT_GE(ActivationBytes(moved), least.activations());
  }
}

// Protects: at 1.5 times the time at which compute takes as long as the copies in, nine tenths of
// all copying hide, from twice the bound on.
TEST(TrafficTest, CopiesHide) {
  constexpr double kRate = 10e9;
  TrainingTraceOptions options{.layers = 24, .activation_bytes = 1 << 12, .validate = false};
  const double all = 48.0 * kUnit;
  // Forward 1, backward 2; 4M bytes in meanwhile.
  options.seconds = 1.5 * (2 * all / kRate) / (3 * 48);
  const StepTrace trace = TrainingTrace(options);
  for (int64_t kept : {2, 4, 8, 16}) {
    SCOPED_TRACE(absl::StrCat(kept, " parameters stay"));
    const TierBytes tiers = {Cap(kept), kPlenty, 0};
    ASSERT_OK_AND_ASSIGN(Placement placement,
                         GeminiPlacer({.link_bytes_per_second = kRate}).Place(trace, tiers));
    const PlacedTime time = TimePlacement(trace, placement, {.link_bytes_per_second = kRate});
    std::printf("%lld parameters stay: %.1f %% hidden\n", static_cast<long long>(kept),
                100 * time.hidden());
    EXPECT_GE(time.hidden(), 0.9);
  }
}

// Protects: what a validation moves and evicts is no part of an update's report.
TEST(TrafficTest, OnlyTheCountedPhasesAreReported) {
  TrainingTraceOptions options{.layers = 24, .activation_bytes = 1 << 12};
  const TierBytes tiers = {Cap(8), kPlenty, 0};
  std::vector<PlacementReport> reports;
  for (bool validate : {false, true}) {
    options.validate = validate;
    const StepTrace trace = TrainingTrace(options);
    ASSERT_OK_AND_ASSIGN(Placement placement, GeminiPlacer({}).Place(trace, tiers));
    reports.push_back(ReportPlacement(trace, placement, tiers, {}, kUpdatePhases));
    const PlacementReport all = ReportPlacement(trace, placement, tiers, {});
    EXPECT_EQ(ModelBytes(all.moved) > ModelBytes(reports.back().moved), validate);
  }
  EXPECT_EQ(ModelBytes(reports[0].moved), ModelBytes(reports[1].moved));
  EXPECT_EQ(reports[0].bound.model(), reports[1].bound.model());
  EXPECT_EQ(reports[0].evictions, reports[1].evictions);
  EXPECT_GT(reports[0].evictions, 0);
}

TEST(TrafficTest, Report) {
  const StepTrace trace = Trace(1);
  const TierBytes tiers = {Cap(8), kPlenty, 0};
  ASSERT_OK_AND_ASSIGN(Placement placement, GeminiPlacer({}).Place(trace, tiers));
  const std::string text = ToText(ReportPlacement(trace, placement, tiers, {}, kUpdatePhases));
  EXPECT_THAT(text, HasSubstr("device: peak "));
  EXPECT_THAT(text, HasSubstr(absl::StrCat("no cap below 2,3")));
  EXPECT_THAT(text, HasSubstr("  1,048,576  "));
  EXPECT_THAT(text, HasSubstr("to host: parameters 0, gradients 50,331,648, states 0"));
  std::printf("%s", text.c_str());
}

}  // namespace
}  // namespace colossus
