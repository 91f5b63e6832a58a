#include "gemini/placement.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gemini/memory_bound.h"
#include "gemini/testing/training_trace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kPlenty = int64_t{1} << 50;

GeminiPlacer Auto() { return GeminiPlacer({.disk_alignment = 64}); }

int64_t BytesOf(const StepTrace& trace, Role role) {
  int64_t bytes = 0;
  for (const TracedBuffer& buffer : trace.buffers) {
    if (buffer.role == role) bytes += buffer.bytes;
  }
  return bytes;
}

struct Copied {
  int64_t parameters_in = 0, states = 0, gradients = 0, activations = 0;
};

// Copies between device and host, without those of a last phase that validates.
Copied CopiesOf(const StepTrace& trace, const Placement& placement) {
  Copied copied;
  const int64_t end = static_cast<int64_t>(trace.phase_end[2]);
  for (const Stay& stay : placement.stays) {
    if (stay.tier != Tier::kDevice || stay.first >= end) continue;
    const TracedBuffer& buffer = trace.buffers[stay.buffer];
    const int64_t moved = buffer.bytes * (stay.load + (stay.store_after >= 0));
    if (buffer.role == Role::kParameter) {
      copied.parameters_in += moved;
    } else if (buffer.role.has_value()) {
      copied.states += moved;
    } else if (buffer.what.starts_with("d.")) {
      copied.gradients += moved;
    } else {
      copied.activations += moved;
    }
  }
  return copied;
}

void ExpectWithin(const StepTrace& trace, const Placement& placement, const TierBytes& tiers) {
  EXPECT_OK(CheckPlacement(trace, placement));
  const TierBytes peak = PeakBytes(trace, placement);
  EXPECT_LE(peak.device, tiers.device);
  EXPECT_LE(peak.host, tiers.host);
  EXPECT_LE(peak.disk, tiers.disk);
}

int64_t PlainBytes(const StepTrace& trace) {
  const absl::StatusOr<Placement> placement = Auto().Place(trace, {kPlenty, 0, 0});
  return placement.ok() ? PeakBytes(trace, *placement).device : -1;
}

// Protects: what fits is left alone: no copy, nothing on the host.
TEST(PlacementTest, PlainWhereItFits) {
  const StepTrace trace = TrainingTrace({});
  const int64_t plain = PlainBytes(trace);
  ASSERT_OK_AND_ASSIGN(Placement placement, Auto().Place(trace, {plain, 0, 0}));
  ExpectWithin(trace, placement, {plain, 0, 0});
  for (const Stay& stay : placement.stays) {
    EXPECT_EQ(stay.tier, Tier::kDevice);
    EXPECT_FALSE(stay.load);
    EXPECT_EQ(stay.store_after, -1);
    EXPECT_FALSE(trace.buffers[stay.buffer].role.has_value());
  }
  EXPECT_EQ(std::count(placement.on_host.begin(), placement.on_host.end(), true), 0);
}

// Protects: from all that plain needs down to the bound everything is accepted, within its tiers,
// and moves less the more there is.
TEST(PlacementTest, SweepOfCaps) {
  const StepTrace trace = TrainingTrace({.layers = 24});
  const MemoryBound bound = DeviceBound(trace);
  const int64_t plain = PlainBytes(trace);
  const int64_t parameters = BytesOf(trace, Role::kParameter);
  int64_t last = kPlenty;
  for (int k = 0; k <= 20; ++k) {
    const int64_t cap = bound.bytes + (plain - bound.bytes) * k / 20;
    SCOPED_TRACE(absl::StrCat("cap ", cap));
    ASSERT_OK_AND_ASSIGN(Placement placement, Auto().Place(trace, {cap, kPlenty, 0}));
    ExpectWithin(trace, placement, {cap, kPlenty, 0});
    const Copied copied = CopiesOf(trace, placement);
    const int64_t all =
        copied.parameters_in + copied.states + copied.gradients + copied.activations;
    EXPECT_LE(all, last);
    // Parameters twice, gradients once.
    EXPECT_LE(copied.parameters_in, 2 * parameters);
    EXPECT_LE(copied.gradients, parameters);
    EXPECT_EQ(copied.states, 0);
    last = all;
  }
  EXPECT_EQ(last, 0);
  EXPECT_THAT(Auto().Place(trace, {bound.bytes - 1, kPlenty, 0}).status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr(absl::StrCat("needs ", bound.bytes, " at once"))));
}

// Protects: streamed parameters move 6M - C bytes of two-byte parameters, activations nothing: C is
// what one pass need not hold for itself.
TEST(PlacementTest, StreamsAtTheLowerBound) {
  const StepTrace trace = TrainingTrace({.layers = 24, .activation_bytes = 1 << 12});
  const int64_t parameters = BytesOf(trace, Role::kParameter);
  for (int64_t kept : {8, 16, 24, 32}) {
    // Activations of all layers, what one instruction needs, and parameters to keep.
    const int64_t cap = 52 * (1 << 12) + (1 << 18) + (int64_t{1} << 20) * (2 + kept);
    ASSERT_OK_AND_ASSIGN(Placement placement, Auto().Place(trace, {cap, kPlenty, 0}));
    ExpectWithin(trace, placement, {cap, kPlenty, 0});
    const Copied copied = CopiesOf(trace, placement);
    EXPECT_EQ(copied.activations, 0);
    EXPECT_EQ(copied.gradients, parameters);
    // 4M in, less what is kept at the turn; forward there is no gradient, hence one more.
    EXPECT_LE(copied.parameters_in, 2 * parameters - (kept << 20));
    EXPECT_GE(copied.parameters_in, 2 * parameters - ((kept + 2) << 20));
  }
}

// Protects: with room for parameters but not for states, parameters go in once and gradients out.
TEST(PlacementTest, ResidentParametersMoveOnce) {
  const StepTrace trace = TrainingTrace({.layers = 24, .activation_bytes = 1 << 12});
  const int64_t parameters = BytesOf(trace, Role::kParameter);
  const int64_t cap = parameters + (int64_t{4} << 20);
  ASSERT_OK_AND_ASSIGN(Placement placement, Auto().Place(trace, {cap, kPlenty, 0}));
  ExpectWithin(trace, placement, {cap, kPlenty, 0});
  const Copied copied = CopiesOf(trace, placement);
  EXPECT_EQ(copied.parameters_in, parameters);
  EXPECT_EQ(copied.gradients, parameters);
  EXPECT_EQ(copied.activations, 0);
  EXPECT_EQ(copied.states, 0);
}

// Protects: disk below the host: moments go first, and all caps that can hold the rest run.
TEST(PlacementTest, SpillsToDisk) {
  const StepTrace trace = TrainingTrace({.layers = 8});
  const int64_t cap = DeviceBound(trace).bytes * 2;
  ASSERT_OK_AND_ASSIGN(Placement ample, Auto().Place(trace, {cap, kPlenty, 0}));
  const int64_t host = PeakBytes(trace, ample).host;
  for (int64_t percent : {95, 80, 60, 40, 20}) {
    const TierBytes tiers = {cap, host * percent / 100, kPlenty};
    SCOPED_TRACE(absl::StrCat(percent, " % of the host's bytes"));
    ASSERT_OK_AND_ASSIGN(Placement placement, Auto().Place(trace, tiers));
    ExpectWithin(trace, placement, tiers);
    const int64_t disk = PeakBytes(trace, placement).disk;
    EXPECT_GT(disk, 0);
    if (percent == 95) {
      for (size_t b = 0; b < trace.buffers.size(); ++b) {
        if (placement.home[b] != Tier::kDisk) continue;
        EXPECT_TRUE(trace.buffers[b].role == Role::kMoment1 ||
                    trace.buffers[b].role == Role::kMoment2);
      }
    }
    const TierBytes half = {cap, tiers.host, disk / 2};
    const absl::StatusOr<Placement> tight = Auto().Place(trace, half);
    if (percent == 95) {  // the other half was room to read ahead
      ASSERT_OK(tight.status());
      ExpectWithin(trace, *tight, half);
      continue;
    }
    EXPECT_THAT(tight.status(),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the disk may take")));
  }
  EXPECT_THAT(Auto().Place(trace, {cap, host / 2, 0}).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the host has")));
}

// Protects: a disk that holds what the host lacks, and little more, is enough, though then nothing
// can be read far ahead.
TEST(PlacementTest, ASmallDiskTakesWhatTheHostLacks) {
  const StepTrace trace = TrainingTrace({.layers = 8});
  const GeminiPlacer placer({.policy = PlacementPolicy::kCpu, .disk_alignment = 64});
  const int64_t cap = DeviceBound(trace).bytes * 2;
  ASSERT_OK_AND_ASSIGN(Placement ample, placer.Place(trace, {cap, kPlenty, 0}));
  const int64_t host = PeakBytes(trace, ample).host;
  for (int64_t percent : {95, 80, 70, 60, 50}) {
    SCOPED_TRACE(absl::StrCat(percent, " % of the host's bytes"));
    const int64_t lacks = host * (100 - percent) / 100;
    // What one update reads, in whole groups, besides.
    const TierBytes tiers = {cap, host - lacks, lacks + host / 4};
    ASSERT_OK_AND_ASSIGN(Placement placement, placer.Place(trace, tiers));
    ExpectWithin(trace, placement, tiers);
  }
}

// Protects: a host that is too small makes more states live on a device that has room.
TEST(PlacementTest, SmallHostUsesTheDevice) {
  const StepTrace trace = TrainingTrace({.layers = 12});
  const int64_t plain = PlainBytes(trace);
  const int64_t states = BytesOf(trace, Role::kMaster) * 3 + BytesOf(trace, Role::kParameter);
  const TierBytes tiers = {plain * 2 / 3, states / 2, 0};
  ASSERT_OK_AND_ASSIGN(Placement placement, Auto().Place(trace, tiers));
  ExpectWithin(trace, placement, tiers);
}

TEST(PlacementTest, StaticKeepsParameters) {
  const StepTrace trace = TrainingTrace({});
  const GeminiPlacer fixed({.policy = PlacementPolicy::kStatic});
  const int64_t parameters = BytesOf(trace, Role::kParameter);
  ASSERT_OK_AND_ASSIGN(Placement placement, fixed.Place(trace, {kPlenty, kPlenty, 0}));
  ExpectWithin(trace, placement, {kPlenty, kPlenty, 0});
  const Copied copied = CopiesOf(trace, placement);
  EXPECT_EQ(copied.parameters_in, parameters);
  EXPECT_EQ(copied.gradients, parameters);
  EXPECT_EQ(copied.activations, 0);
  const int64_t bound = DeviceBound(trace).bytes;
  EXPECT_OK(Auto().Place(trace, {parameters, kPlenty, 0}));
  EXPECT_THAT(fixed.Place(trace, {parameters, kPlenty, 0}).status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr(absl::StrCat("placement=auto needs a device memory of ", bound))));
}

TEST(PlacementTest, CpuKeepsNoStateOnTheDevice) {
  const StepTrace trace = TrainingTrace({});
  ASSERT_OK_AND_ASSIGN(
      Placement placement,
      GeminiPlacer({.policy = PlacementPolicy::kCpu}).Place(trace, {kPlenty, kPlenty, 0}));
  ExpectWithin(trace, placement, {kPlenty, kPlenty, 0});
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    if (!trace.buffers[b].role.has_value()) continue;
    EXPECT_EQ(placement.home[b], Tier::kHost);
  }
}

// Protects: a plan that is made again leaves homes where they are, and goes by measured rates.
TEST(PlacementTest, HomesStayWhereTheyAre) {
  StepTrace trace = TrainingTrace({.layers = 8});
  const int64_t bound = DeviceBound(trace).bytes;
  const TierBytes first = {2 * bound, 40 << 20, kPlenty};
  ASSERT_OK_AND_ASSIGN(Placement placement, Auto().Place(trace, first));
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    if (trace.buffers[b].role.has_value()) trace.buffers[b].home = placement.home[b];
  }
  trace.link_bytes_per_second = 1e9;
  trace.disk_read_bytes_per_second = trace.disk_write_bytes_per_second = 1e8;
  for (TracedInstruction& instruction : trace.instructions) instruction.seconds *= 3;
  for (const TierBytes& tiers : {first, TierBytes{3 * bound, 60 << 20, kPlenty}}) {
    ASSERT_OK_AND_ASSIGN(Placement again, Auto().Place(trace, tiers));
    ExpectWithin(trace, again, tiers);
    for (size_t b = 0; b < trace.buffers.size(); ++b) {
      if (!trace.buffers[b].role.has_value()) continue;
      EXPECT_EQ(again.home[b], placement.home[b]);
    }
  }
}

TEST(PlacementTest, PolicyNames) {
  for (PlacementPolicy policy :
       {PlacementPolicy::kAuto, PlacementPolicy::kStatic, PlacementPolicy::kCpu}) {
    EXPECT_THAT(ParsePlacementPolicy(Name(policy)), IsOkAndHolds(policy));
  }
  EXPECT_THAT(ParsePlacementPolicy("gpu"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("auto, static, cpu")));
}

// Protects: any trace, any tiers: valid and within them, and accepted down to the bound where the
// host is large.
TEST(PlacementTest, RandomTraces) {
  const uint64_t seed = TestSeed();
  int accepted = 0, tried = 0;
  for (uint64_t g = seed; g < seed + 400; ++g) {
    SCOPED_TRACE(absl::StrCat("seed ", g));
    std::mt19937_64 random(g);
    const StepTrace trace = RandomTrace(random);
    const int64_t bound = DeviceBound(trace).bytes;
    const PlacementPolicy policy =
        random() % 4 == 0 ? PlacementPolicy::kCpu : PlacementPolicy::kAuto;
    const GeminiPlacer placer(
        {.policy = policy, .link_bytes_per_second = 1e9 * (random() % 3), .disk_alignment = 64});
    for (int k = 0; k < 6; ++k) {
      TierBytes tiers = {bound + static_cast<int64_t>(random() % (bound + 1)), kPlenty, 0};
      if (k == 0) tiers.device = bound;
      if (k > 2) tiers = {tiers.device, static_cast<int64_t>(random() % (4 * bound + 1)), kPlenty};
      const absl::StatusOr<Placement> placement = placer.Place(trace, tiers);
      if (k <= 2) {
        ASSERT_OK(placement.status());
      }
      ++tried;
      if (!placement.ok()) {
        EXPECT_EQ(placement.status().code(), absl::StatusCode::kResourceExhausted);
        continue;
      }
      ++accepted;
      ExpectWithin(trace, *placement, tiers);
    }
  }
  std::printf("%d of %d accepted\n", accepted, tried);
  EXPECT_GT(accepted, tried * 3 / 4);
}

// Prints how long a large step takes to plan.
TEST(PlacementTest, LargeStep) {
  const StepTrace trace = TrainingTrace({.layers = 100, .micro_batches = 16, .parameters = 4});
  const int64_t bound = DeviceBound(trace).bytes;
  for (int64_t factor : {2, 20, 100}) {
    const auto start = std::chrono::steady_clock::now();
    ASSERT_OK_AND_ASSIGN(Placement placement,
                         Auto().Place(trace, {factor * bound, kPlenty, kPlenty}));
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("%zu instructions, %zu buffers, %zu stays: %.3f s\n", trace.instructions.size(),
                trace.buffers.size(), placement.stays.size(), seconds);
    ExpectWithin(trace, placement, {factor * bound, kPlenty, kPlenty});
  }
}

}  // namespace
}  // namespace colossus
