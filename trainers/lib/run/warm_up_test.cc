// Which updates of a run are measured, and that all ranks measure the same ones.
#include "trainers/lib/run/warm_up.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "collectives/communicator.h"
#include "collectives/in_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/exec/device.h"
#include "tensor/exec/placement.h"
#include "tensor/exec/program.h"
#include "tensor/exec/testing/random_placer.h"
#include "tensor/exec/testing/random_step.h"
#include "trainers/lib/ranks/rank_group.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

constexpr char kMeasured[] = "times of this update", kDrifted[] = "the next one is measured";

// Takes its time for every placement but the first.
class SlowPlacer final : public Placer {
 public:
  absl::StatusOr<Placement> Place(const StepTrace& trace, const TierBytes& tiers) const override {
    if (placed_.exchange(true)) std::this_thread::sleep_for(std::chrono::seconds(6));
    return RandomPlacer(TestSeed()).Place(trace, tiers);
  }

 private:
  mutable std::atomic<bool> placed_{false};
};

// A program of a random step and what says when its updates are measured.
class MeasuredRun {
 public:
  MeasuredRun(RankGroup group, bool placed)
      : MeasuredRun(group, placed ? std::make_shared<RandomPlacer>(TestSeed()) : nullptr) {}
  MeasuredRun(RankGroup group, std::shared_ptr<const Placer> placer)
      : step_(MakeRandomStep(TestSeed())),
        model_(step_, TestSeed()),
        device_(NewHostDevice({.kernels = KernelsWithWorkspaces()})) {
    ProgramOptions options;
    options.placer = std::move(placer);
    absl::StatusOr<std::unique_ptr<Program>> program =
        Program::Compile(step_.step, *device_, options);
    EXPECT_OK(program.status());
    program_ = *std::move(program);
    EXPECT_OK(program_->Allocate());
    EXPECT_OK(model_.WriteStates(*program_));
    warm_up_ = std::make_unique<WarmUp>(*program_, group, group);
  }

  // An update that is said to have taken so long; only a measured one runs. What the log would say.
  std::string Update(double seconds) {
    StepObserver* observer = warm_up_->Next();
    measured_ += observer != nullptr;
    for (size_t p = 0; observer != nullptr && p < step_.step.phases.size(); ++p) {
      EXPECT_OK(program_->RunPhase(static_cast<int>(p), model_.feeds(), observer).status());
    }
    const absl::StatusOr<std::string> said = warm_up_->Done(seconds);
    EXPECT_OK(said.status());
    return said.value_or("");
  }
  // The same so often, of which none says anything.
  void Silent(int updates, double seconds) {
    for (int k = 0; k < updates; ++k) EXPECT_EQ(Update(seconds), "") << k;
  }
  int measured() const { return measured_; }

 private:
  const RandomStep step_;
  StepModel model_;
  const std::unique_ptr<Device> device_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<WarmUp> warm_up_;
  int measured_ = 0;
};

TEST(WarmUpTest, TheSecondUpdateIsMeasuredAndThoseAfterADrift) {
  MeasuredRun run(RankGroup(), /*placed=*/true);
  run.Silent(1, 50);  // touches everything for the first time
  EXPECT_THAT(run.Update(3), HasSubstr(kMeasured));
  run.Silent(16, 1);
  run.Silent(3, 1.4);  // of eight, so the median stands
  run.Silent(8, 1);
  run.Silent(20, 1.2);  // not much
  EXPECT_EQ(run.measured(), 1);
  run.Silent(3, 1.4);
  EXPECT_THAT(run.Update(1.4), HasSubstr(kDrifted));
  EXPECT_THAT(run.Update(3), HasSubstr(kMeasured));
  run.Silent(15, 1.4);
  run.Silent(4, 0.7);
  EXPECT_THAT(run.Update(0.7), HasSubstr(kDrifted));
  EXPECT_THAT(run.Update(3), HasSubstr(kMeasured));
  EXPECT_EQ(run.measured(), 3);
}

TEST(WarmUpTest, WhatIsNotPlacedIsNotMeasured) {
  MeasuredRun run(RankGroup(), /*placed=*/false);
  run.Silent(20, 1);
  run.Silent(20, 9);
  EXPECT_EQ(run.measured(), 0);
}

// Protects: a rank that drifts makes all ranks measure the same update, since they place together.
TEST(WarmUpTest, RanksMeasureTogether) {
  EXPECT_OK(RunRanks({.ranks = 2}, [](Communicator& world) {
    MeasuredRun run(RankGroup(&world), /*placed=*/true);
    run.Silent(1, 1);
    EXPECT_THAT(run.Update(1), HasSubstr(kMeasured));
    run.Silent(16, 1);
    const double seconds = world.rank() == 1 ? 2 : 1;
    run.Silent(3, seconds);
    EXPECT_THAT(run.Update(seconds), HasSubstr(kDrifted));
    EXPECT_THAT(run.Update(1), HasSubstr(kMeasured));
    EXPECT_EQ(run.measured(), 2);
    return absl::OkStatus();
  }));
}

// Protects: a rank that makes a new placement for longer than others wait for a silent one lives.
TEST(WarmUpTest, ALongPlacementIsNoHang) {
  EXPECT_OK(RunRanks({.ranks = 2, .watch = {.stall_seconds = 4}}, [](Communicator& world) {
    std::shared_ptr<const Placer> placer = std::make_shared<RandomPlacer>(TestSeed());
    if (world.rank() == 1) placer = std::make_shared<SlowPlacer>();
    MeasuredRun run(RankGroup(&world), placer);
    run.Silent(1, 1);
    EXPECT_THAT(run.Update(1), HasSubstr(kMeasured));
    return absl::OkStatus();
  }));
}

}  // namespace
}  // namespace colossus
