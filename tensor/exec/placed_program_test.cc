// Placed programs: whatever the placement, on every device, with and without a disk, the bits are
// those of the interpreter; and every tier is used to the planned byte.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/exec/device.h"
#include "tensor/exec/placement.h"
#include "tensor/exec/program.h"
#include "tensor/exec/step_times.h"
#include "tensor/exec/testing/memory_disk.h"
#include "tensor/exec/testing/random_placer.h"
#include "tensor/exec/testing/random_step.h"
#include "tensor/exec/timeline.h"

namespace colossus {

// Takes away what the instructions of a stream wait for.
class ProgramTestPeer {
 public:
  static void DropWaits(Program& program, StepStream stream) {
    for (Instruction& instruction : program.plan_.instructions) {
      if (StreamOf(instruction) == stream) instruction.waits.clear();
    }
  }
};

namespace {

using ::testing::HasSubstr;

constexpr int64_t kDiskSize = 1 << 24;

ProgramOptions PlacedOptions(uint64_t seed, bool disk) {
  ProgramOptions options;
  options.placer = std::make_shared<RandomPlacer>(seed);
  if (disk) {
    options.disk_memory_bytes = kDiskSize;
    options.disk = std::make_shared<MemoryDisk>(kDiskSize);
  }
  return options;
}

absl::StatusOr<std::unique_ptr<Program>> Ready(const RandomStep& random, Device& device,
                                               const ProgramOptions& options,
                                               const StepModel& model) {
  ASSIGN_OR_RETURN(std::unique_ptr<Program> program,
                   Program::Compile(random.step, device, options));
  RETURN_IF_ERROR(program->Allocate());
  RETURN_IF_ERROR(model.WriteStates(*program));
  return program;
}

absl::Status RunTwice(const RandomStep& random, Device& device, const ProgramOptions& options,
                      uint64_t seed) {
  StepModel model(random, seed);
  ASSIGN_OR_RETURN(std::unique_ptr<Program> program, Ready(random, device, options, model));
  RETURN_IF_ERROR(model.RunAndCompare(*program));
  return model.RunAndCompare(*program);
}

CappedDeviceOptions LateDevice(uint64_t seed) {
  CappedDeviceOptions options;
  options.memory_bytes = 1 << 22;
  options.kernels = KernelsWithWorkspaces();
  options.late_seed = seed;
  return options;
}

// Random placements, and how many stays of states in them reach over the end of a phase.
class CountingPlacer final : public Placer {
 public:
  explicit CountingPlacer(uint64_t seed) : placer_(seed) {}
  absl::StatusOr<Placement> Place(const StepTrace& trace, const TierBytes& tiers) const override {
    ASSIGN_OR_RETURN(Placement placement, placer_.Place(trace, tiers));
    auto phase = [&](int64_t t) {
      return std::upper_bound(trace.phase_end.begin(), trace.phase_end.end(),
                              static_cast<size_t>(t));
    };
    for (const Stay& stay : placement.stays) {
      const bool state = trace.buffers[stay.buffer].role.has_value();
      crossing_ += state && phase(stay.first) != phase(stay.last);
    }
    return placement;
  }
  int crossing() const { return crossing_; }

 private:
  const RandomPlacer placer_;
  mutable int crossing_ = 0;
};

TEST(PlacedProgramTest, EqualsTheInterpreterWithDeadRangesPoisoned) {
  const uint64_t seed = TestSeed();
  std::unique_ptr<Device> device =
      NewHostDevice({.memory_bytes = INT64_MAX, .threads = 1, .kernels = KernelsWithWorkspaces()});
  std::array<int, 8> kinds{};
  int on_host = 0, placed = 0, crossing = 0;
  for (uint64_t g = seed; g < seed + 300; ++g) {
    RandomStep random = MakeRandomStep(g);
    ProgramOptions options = PlacedOptions(g, /*disk=*/g % 3 != 0);
    options.poison = true;
    auto placer = std::make_shared<CountingPlacer>(g);
    options.placer = placer;
    ASSERT_OK(RunTwice(random, *device, options, g)) << "graph " << g;
    crossing += placer->crossing();
    options.disk = options.disk == nullptr ? nullptr : std::make_shared<MemoryDisk>(kDiskSize);
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Program> program,
                         Program::Compile(random.step, *device, options));
    int moves = 0;
    for (const Instruction& instruction : program->plan().instructions) {
      ++kinds[static_cast<size_t>(instruction.kind)];
      moves += instruction.kind >= InstructionKind::kLoad;
      on_host += instruction.on_host && instruction.kind == InstructionKind::kKernel;
    }
    placed += moves > 0;
  }
  // The placements reach what they are meant to reach.
  EXPECT_GT(placed, 250);
  EXPECT_GT(crossing, 100);
  EXPECT_GT(on_host, 1000);
  EXPECT_GT(kinds[static_cast<size_t>(InstructionKind::kLoad)], 3000);
  EXPECT_GT(kinds[static_cast<size_t>(InstructionKind::kStore)], 3000);
  EXPECT_GT(kinds[static_cast<size_t>(InstructionKind::kReadDisk)], 1000);
  EXPECT_GT(kinds[static_cast<size_t>(InstructionKind::kWriteDisk)], 1000);
}

TEST(PlacedProgramTest, EveryDeviceGivesTheSameBits) {
  const uint64_t seed = TestSeed();
  for (uint64_t g = seed; g < seed + 120; ++g) {
    RandomStep random = MakeRandomStep(g);
    CappedDeviceOptions capped = LateDevice(g);
    capped.protect = g % 3 == 1;
    if (g % 3 == 0) capped.late_seed.reset();
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Device> device, NewCappedDevice(capped));
    ProgramOptions options = PlacedOptions(g, /*disk=*/g % 4 != 0);
    options.poison = g % 5 == 0;
    options.overlap = g % 7 != 0;
    ASSERT_OK(RunTwice(random, *device, options, g)) << "graph " << g;
  }
}

// Protects: waits of every stream. Streams run as late as they may, in random order.
TEST(PlacedProgramTest, EveryStreamWaits) {
  const uint64_t seed = TestSeed();
  std::array<int, kStepStreams> runs{}, wrong{};
  for (uint64_t g = seed; g < seed + 60; ++g) {
    RandomStep random = MakeRandomStep(g);
    for (size_t s = 0; s < kStepStreams; ++s) {
      ASSERT_OK_AND_ASSIGN(std::unique_ptr<Device> device, NewCappedDevice(LateDevice(g)));
      StepModel model(random, g);
      ASSERT_OK_AND_ASSIGN(std::unique_ptr<Program> program,
                           Ready(random, *device, PlacedOptions(g, /*disk=*/true), model));
      int waits = 0;
      for (const Instruction& instruction : program->plan().instructions) {
        if (StreamOf(instruction) == static_cast<StepStream>(s)) {
          waits += static_cast<int>(instruction.waits.size());
        }
      }
      ProgramTestPeer::DropWaits(*program, static_cast<StepStream>(s));
      const bool bad = !model.RunAndCompare(*program).ok() || !model.RunAndCompare(*program).ok();
      runs[s] += waits > 0;
      wrong[s] += bad;
      EXPECT_TRUE(!bad || waits > 0) << "graph " << g;
    }
  }
  for (size_t s = 0; s < kStepStreams; ++s) {
    EXPECT_GT(runs[s], 20) << Name(static_cast<StepStream>(s));
    EXPECT_GT(2 * wrong[s], runs[s]) << Name(static_cast<StepStream>(s));
  }
}

// Per byte of device and host arena: whether a run that finds `canary` there changes it.
std::array<std::vector<bool>, 2> Touched(const RandomStep& random, Device& device, char canary,
                                         const ProgramOptions& options, uint64_t seed) {
  absl::StatusOr<std::unique_ptr<Program>> program = Program::Compile(random.step, device, options);
  EXPECT_OK(program.status());
  EXPECT_OK((*program)->Allocate());
  const MemoryPlan& plan = (*program)->plan();
  const std::array<std::pair<Tier, int64_t>, 2> tiers = {
      {{Tier::kDevice, plan.device_bytes}, {Tier::kHost, plan.host_bytes}}};
  auto arena = [&](Tier tier) { return const_cast<char*>((*program)->address({0, 0, tier})); };
  for (auto [tier, bytes] : tiers) {
    std::memset(arena(tier), canary, static_cast<size_t>(bytes));
  }
  StepModel model(random, seed);
  EXPECT_OK(model.WriteStates(**program));
  EXPECT_OK(model.RunAndCompare(**program));
  std::array<std::vector<bool>, 2> touched;
  for (size_t i = 0; i < tiers.size(); ++i) {
    for (int64_t b = 0; b < tiers[i].second; ++b) {
      touched[i].push_back(arena(tiers[i].first)[b] != canary);
    }
  }
  return touched;
}

// Whether one of the last `unit` bytes is touched, or there are none.
bool EndIsTouched(const std::vector<bool>& touched, size_t unit) {
  const size_t begin = touched.size() - std::min(touched.size(), unit);
  return touched.empty() || std::find(touched.begin() + static_cast<int64_t>(begin), touched.end(),
                                      true) != touched.end();
}

TEST(PlacedProgramTest, TouchesItsPlannedPeakOnEveryTierAndNothingElseWillDo) {
  const uint64_t seed = TestSeed();
  std::unique_ptr<Device> host =
      NewHostDevice({.memory_bytes = INT64_MAX, .threads = 1, .kernels = KernelsWithWorkspaces()});
  int device_ends = 0, host_ends = 0, refused = 0;
  for (uint64_t g = seed; g < seed + 60; ++g) {
    RandomStep random = MakeRandomStep(g);
    const bool disk = g % 2 == 0;
    ProgramOptions options = PlacedOptions(g, disk);
    options.overlap = false;  // as the host device has it
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Program> program,
                         Program::Compile(random.step, *host, options));
    const MemoryPlan& plan = program->plan();
    auto a = Touched(random, *host, 0x11, PlacedOptions(g, disk), g);
    auto b = Touched(random, *host, 0x22, PlacedOptions(g, disk), g);
    // A byte may happen to be one canary, not both. What is stored before all of it is made is only
    // read to its end, and of the disk's whole blocks the last bytes mean nothing.
    device_ends += EndIsTouched(a[0], 1) || EndIsTouched(b[0], 1);
    const size_t unit = disk ? kDiskAlignment : 1;
    host_ends += plan.host_bytes == plan.staging_bytes || EndIsTouched(a[1], unit) ||
                 EndIsTouched(b[1], unit);
    if (plan.device_bytes == 0) continue;
    CappedDeviceOptions capped = LateDevice(g);
    capped.memory_bytes = plan.device_bytes;
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Device> exact, NewCappedDevice(capped));
    options.host_memory_bytes = plan.host_bytes;
    ASSERT_OK(RunTwice(random, *exact, options, g)) << "graph " << g;
    // With a byte less it is refused, or lies closer together.
    --options.host_memory_bytes;
    absl::StatusOr<std::unique_ptr<Program>> less = Program::Compile(random.step, *exact, options);
    if (less.ok()) {
      EXPECT_LT((*less)->plan().host_bytes, plan.host_bytes);
      continue;
    }
    ++refused;
    EXPECT_THAT(less.status(),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         HasSubstr(absl::StrCat("the host has ", options.host_memory_bytes,
                                                " bytes, the plan needs ", plan.host_bytes))));
    EXPECT_THAT(std::string(less.status().message()), HasSubstr("Largest at the peak:\n  "));
  }
  EXPECT_GE(device_ends, 55);
  EXPECT_GE(host_ends, 55);
  EXPECT_GE(refused, 40);
}

TEST(PlacedProgramTest, TheNullDeviceHasTheSamePlanAndCountsTheSameBytes) {
  const uint64_t seed = TestSeed();
  NullDeviceOptions null_options;
  null_options.kernels = KernelsWithWorkspaces();
  std::unique_ptr<Device> null = NewNullDevice(null_options);
  for (uint64_t g = seed; g < seed + 20; ++g) {
    RandomStep random = MakeRandomStep(g);
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Device> device, NewCappedDevice(LateDevice(g)));
    ProgramOptions options = PlacedOptions(g, /*disk=*/true);
    auto disk = std::make_shared<MemoryDisk>(kDiskSize);
    options.disk = disk;
    StepModel model(random, g);
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Program> a, Ready(random, *device, options, model));
    options.disk = nullptr;
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Program> b, Program::Compile(random.step, *null, options));
    EXPECT_EQ(ToText(a->plan()), ToText(b->plan()));
    const DiskTraffic before = disk->traffic();
    ASSERT_OK(model.RunAndCompare(*a));
    ASSERT_OK(b->Allocate());
    const double start = null->clock().Seconds();
    for (size_t p = 0; p < random.step.phases.size(); ++p) {
      EXPECT_OK(b->RunPhase(static_cast<int>(p), nullptr).status());
    }
    EXPECT_GT(null->clock().Seconds(), start);
    EXPECT_EQ(a->traffic().host_to_device, b->traffic().host_to_device);
    EXPECT_EQ(a->traffic().device_to_host, b->traffic().device_to_host);
    EXPECT_EQ(a->traffic().disk_read, b->traffic().disk_read);
    EXPECT_EQ(a->traffic().disk_written, b->traffic().disk_written);
    EXPECT_EQ(Total(a->traffic().disk_written),
              disk->traffic().written_bytes - before.written_bytes);
    if (Total(b->traffic().host_to_device) > 0) {
      const PhaseTime time = PredictPhase(*b, 0);
      EXPECT_GE(time.exposed_transfer, 0);
      EXPECT_LE(time.exposed_transfer, time.transfer * 1.0001);
    }
  }
}

TEST(PlacedProgramTest, ADiskThatFailsOrIsMissingIsReported) {
  const uint64_t seed = TestSeed();
  int failed = 0;
  for (uint64_t g = seed; g < seed + 20; ++g) {
    RandomStep random = MakeRandomStep(g);
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Device> device, NewCappedDevice(LateDevice(g)));
    ProgramOptions options = PlacedOptions(g, /*disk=*/true);
    auto disk = std::make_shared<MemoryDisk>(kDiskSize);
    options.disk = disk;
    StepModel model(random, g);
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Program> program, Ready(random, *device, options, model));
    disk->FailAfter(0);
    if (Total(TrafficOf(program->plan(), 0).disk_read) == 0) continue;
    ++failed;
    // What is read for a phase that follows may be known to fail there only.
    absl::Status status;
    for (size_t p = 0; p < random.step.phases.size() && status.ok(); ++p) {
      status = program->RunPhase(static_cast<int>(p), model.feeds()).status();
    }
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("injected failure")));
  }
  EXPECT_GT(failed, 3);

  RandomStep random = MakeRandomStep(seed);
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Device> device, NewCappedDevice(LateDevice(seed)));
  ProgramOptions options = PlacedOptions(seed, /*disk=*/true);
  options.disk = nullptr;
  EXPECT_THAT(Program::Compile(random.step, *device, options).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs one")));
}

// Protects: a plan that is made again, by measured times, computes the same and finds the states.
TEST(PlacedProgramTest, IsPlacedAgainByWhatWasMeasured) {
  const uint64_t seed = TestSeed();
  int again = 0, different = 0;
  for (uint64_t g = seed; g < seed + 60; ++g) {
    RandomStep random = MakeRandomStep(g);
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Device> device, NewCappedDevice(LateDevice(g)));
    ProgramOptions options = PlacedOptions(g, /*disk=*/g % 2 == 0);
    options.poison = g % 3 == 0;
    StepModel model(random, g);
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Program> program, Ready(random, *device, options, model));
    ASSERT_OK(model.RunAndCompare(*program));
    // An update that only measures, on a program of its own.
    options.disk = g % 2 == 0 ? std::make_shared<MemoryDisk>(kDiskSize) : nullptr;
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Device> other, NewCappedDevice(LateDevice(g)));
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Program> twin, Ready(random, *other, options, model));
    MeasureStep measure(*twin);
    for (size_t p = 0; p < random.step.phases.size(); ++p) {
      ASSERT_OK(twin->RunPhase(static_cast<int>(p), model.feeds(), &measure).status());
    }
    for (double seconds : measure.times().device) EXPECT_TRUE(seconds == -1 || seconds >= 0);
    const std::string before = ToText(program->plan());
    const StepTimes times = measure.times();
    ASSERT_OK_AND_ASSIGN(const bool changed, program->PlaceAgain(times));
    again += changed;
    different += ToText(program->plan()) != before;
    ASSERT_OK(model.RunAndCompare(*program)) << "graph " << g;
    ASSERT_OK(model.RunAndCompare(*program)) << "graph " << g;
    // Predictions go by it.
    StepTimes seconds = times;
    seconds.device.assign(times.device.size(), 1);
    seconds.host.assign(times.host.size(), 2);
    ASSERT_OK(program->PlaceAgain(seconds).status());
    double device_seconds = 0, host_seconds = 0;
    for (const Instruction& instruction : program->plan().instructions) {
      if (instruction.traced < 0) continue;
      (instruction.on_host ? host_seconds : device_seconds) += instruction.on_host ? 2 : 1;
    }
    std::vector<int> phases(random.step.phases.size());
    std::iota(phases.begin(), phases.end(), 0);
    const PhaseTime time = PredictPhases(*program, phases);
    EXPECT_EQ(time.compute + time.link, device_seconds);
    EXPECT_EQ(time.host, host_seconds);
  }
  EXPECT_GT(again, 5);
  EXPECT_GT(different, 5);
}

// Places everything on the device and notes what it is told it may use.
class NotingPlacer final : public Placer {
 public:
  absl::StatusOr<Placement> Place(const StepTrace& trace, const TierBytes& tiers) const override {
    asked_.push_back(tiers);
    Placement placement;
    placement.home.assign(trace.buffers.size(), Tier::kDevice);
    placement.on_host.assign(trace.instructions.size(), false);
    for (size_t b = 0; b < trace.buffers.size(); ++b) {
      if (trace.buffers[b].role.has_value()) continue;
      const int64_t last = static_cast<int64_t>(trace.instructions.size()) - 1;
      placement.stays.push_back({static_cast<int>(b), Tier::kDevice, 0, last, false, -1});
    }
    return placement;
  }
  const std::vector<TierBytes>& asked() const { return asked_; }

 private:
  mutable std::vector<TierBytes> asked_;
};

TEST(PlacedProgramTest, IsAskedAgainWithLessWhereThingsDoNotFitSideBySide) {
  RandomStep random = MakeRandomStep(TestSeed());
  auto placer = std::make_shared<NotingPlacer>();
  ProgramOptions options;
  options.placer = placer;
  CappedDeviceOptions capped = LateDevice(1);
  capped.memory_bytes = 64;
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Device> device, NewCappedDevice(capped));
  EXPECT_THAT(Program::Compile(random.step, *device, options).status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("the device has 64 bytes, the plan needs ")));
  ASSERT_GT(placer->asked().size(), 1u);
  EXPECT_EQ(placer->asked()[0].device, 64);
  EXPECT_EQ(placer->asked()[0].gaps, 0);
  EXPECT_GT(placer->asked()[1].gaps, 0);
}

}  // namespace
}  // namespace colossus
