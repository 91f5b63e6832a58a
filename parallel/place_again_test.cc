// Ranks that measured different times place alike; ranks of different steps do not place at all.
#include "parallel/place_again.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "collectives/communicator.h"
#include "collectives/in_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/exec/device.h"
#include "tensor/exec/memory_plan.h"
#include "tensor/exec/placement.h"
#include "tensor/exec/program.h"
#include "tensor/exec/testing/random_placer.h"
#include "tensor/exec/testing/random_step.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

// Keeps the last trace it was asked about.
class KeepingPlacer final : public Placer {
 public:
  explicit KeepingPlacer(uint64_t seed) : inner_(seed) {}
  absl::StatusOr<Placement> Place(const StepTrace& trace, const TierBytes& tiers) const override {
    trace_ = trace;
    return inner_.Place(trace, tiers);
  }
  const StepTrace& trace() const { return trace_; }

 private:
  const RandomPlacer inner_;
  mutable StepTrace trace_;
};

struct Outcome {
  absl::Status status;
  std::vector<double> seconds;
  double link = 0;
  std::string plan;
};

// Rank r runs the step of seed + r * `apart`, and measures r + 1 seconds for everything.
absl::Status RunRank(Communicator& world, uint64_t seed, uint64_t apart, Outcome& outcome) {
  const uint64_t rank = static_cast<uint64_t>(world.rank());
  RandomStep random = MakeRandomStep(seed + rank * apart);
  std::unique_ptr<Device> device =
      NewHostDevice({.memory_bytes = INT64_MAX, .threads = 1, .kernels = KernelsWithWorkspaces()});
  auto placer = std::make_shared<KeepingPlacer>(seed);
  ProgramOptions options;
  options.placer = placer;
  ASSIGN_OR_RETURN(std::unique_ptr<Program> program,
                   Program::Compile(random.step, *device, options));
  RETURN_IF_ERROR(program->Allocate());
  StepTimes times;
  times.device.assign(placer->trace().instructions.size(), static_cast<double>(rank) + 1);
  times.host = times.device;
  times.link = 1e9 / static_cast<double>(rank + 1);
  absl::StatusOr<bool> changed = PlaceAgain(*program, times, &world);
  outcome.status = changed.status();
  for (const TracedInstruction& instruction : placer->trace().instructions) {
    outcome.seconds.push_back(instruction.seconds);
  }
  outcome.link = placer->trace().link_bytes_per_second;
  outcome.plan = ToText(program->plan());
  return absl::OkStatus();
}

std::vector<Outcome> OutcomesOf(uint64_t seed, uint64_t apart) {
  std::vector<Outcome> outcomes(3);
  EXPECT_OK(RunRanks({.ranks = 3}, [&](Communicator& world) {
    return RunRank(world, seed, apart, outcomes[static_cast<size_t>(world.rank())]);
  }));
  return outcomes;
}

TEST(PlaceAgainTest, RanksTakeTheSlowestTimes) {
  const std::vector<Outcome> outcomes = OutcomesOf(TestSeed(), 0);
  for (const Outcome& outcome : outcomes) {
    EXPECT_OK(outcome.status);
    EXPECT_EQ(outcome.plan, outcomes[0].plan);
    EXPECT_DOUBLE_EQ(outcome.link, 1e9 / 3);
    ASSERT_FALSE(outcome.seconds.empty());
    for (double seconds : outcome.seconds) EXPECT_EQ(seconds, 3);
  }
}

TEST(PlaceAgainTest, DifferentStepsAreRefused) {
  for (const Outcome& outcome : OutcomesOf(TestSeed(), 1)) {
    EXPECT_THAT(outcome.status,
                StatusIs(absl::StatusCode::kInternal, HasSubstr("should run the same step")));
  }
}

}  // namespace
}  // namespace colossus
