// The room that a searched order is given: by made-up needs, and of a model that has too little.
#include "parallel/fit_schedule.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "parallel/compile.h"
#include "parallel/pipeline/costs.h"
#include "parallel/pipeline/timeline.h"
#include "parallel/rank_graph.h"
#include "shardformer/presets.h"
#include "tensor/exec/device.h"
#include "tensor/kernels/collective/collective_kernels.h"
#include "tensor/kernels/cpu/cpu_list.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Stages that need `fixed`, and `each` for every micro-batch that their room lets them keep, up to
// `wanted`.
struct FakeStages {
  std::vector<int64_t> fixed, each;
  double wanted = 8;
  int asked = 0;

  std::vector<StageNeed> Needs(const std::vector<double>& room) const {
    std::vector<StageNeed> needs;
    for (size_t s = 0; s < fixed.size(); ++s) {
      const double kept = room.empty() ? wanted : std::min(wanted, room[s]);
      needs.push_back(
          {fixed[s] + static_cast<int64_t>(static_cast<double>(each[s]) * kept), kept});
    }
    return needs;
  }
  absl::StatusOr<ScheduleFit> Fit(int64_t device_bytes) {
    return FitRoom(8, device_bytes,
                   [&](const std::vector<double>& room) {
                     ++asked;
                     return Needs(room);
                   },
                   {2, 1});
  }
};

TEST(FitRoomTest, EverythingFits) {
  FakeStages stages{{100, 50}, {10, 10}};
  ASSERT_OK_AND_ASSIGN(const ScheduleFit fit, stages.Fit(180));
  EXPECT_TRUE(fit.fits);
  EXPECT_TRUE(fit.room.empty());
  EXPECT_EQ(stages.asked, 1);
}

// Each stage has what its own device has room for.
TEST(FitRoomTest, WhatThereIsRoomFor) {
  FakeStages stages{{100, 50}, {10, 10}};
  ASSERT_OK_AND_ASSIGN(const ScheduleFit fit, stages.Fit(145));
  EXPECT_TRUE(fit.fits);
  EXPECT_EQ(fit.room, (std::vector<double>{4.5, 8}));
}

TEST(FitRoomTest, NotEvenOne) {
  FakeStages stages{{100, 50}, {10, 10}};
  ASSERT_OK_AND_ASSIGN(const ScheduleFit fit, stages.Fit(109));
  EXPECT_FALSE(fit.fits);
  EXPECT_EQ(fit.room, (std::vector<double>{2, 1}));
}

// Whatever stages need, what is taken fits if the least does, and is at least one.
TEST(FitRoomTest, FitsIfAnythingDoes) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 300; ++round) {
    const StageNeeds needs = [&](const std::vector<double>& room) {
      std::vector<StageNeed> of_stages;
      for (size_t s = 0; s < 3; ++s) {
        const double kept = room.empty() ? 8 : room[s];
        const bool least = !room.empty() && *std::max_element(room.begin(), room.end()) == 1;
        const auto more = least ? 0 : static_cast<int64_t>(random() % 40);  // not in proportion
        of_stages.push_back({100 + static_cast<int64_t>(kept * 10) + more, kept});
      }
      return of_stages;
    };
    ASSERT_OK_AND_ASSIGN(const ScheduleFit fit, FitRoom(8, 150, needs, {1, 1, 1}));
    EXPECT_TRUE(fit.fits);
    for (double kept : fit.room) {
      EXPECT_GE(kept, 1);
      EXPECT_LE(kept, 8);
    }
  }
}

TEST(FitRoomTest, ErrorsAreReported) {
  const StageNeeds fails = [](const std::vector<double>&) {
    return absl::StatusOr<std::vector<StageNeed>>(absl::UnimplementedError("no kernel"));
  };
  EXPECT_EQ(FitRoom(8, 150, fails, {1}).status(), absl::UnimplementedError("no kernel"));
}

// Two stages of gpt2-tiny, eight micro-batches.
Plan SearchedPlan() {
  Plan plan;
  plan.micro_batch = 4;
  plan.micro_batches = 8;
  plan.sequence_length = 64;
  plan.stages = {StagePlan{{0}, {}}, StagePlan{{1}, {}}};
  plan.schedule = "searched";
  return plan;
}

struct OnDevice {
  int64_t bytes = 0;  // the most of the stages
  std::vector<double> kept;
  std::string choice;
};

absl::StatusOr<OnDevice> Compiled(const Plan& plan, int64_t memory) {
  ASSIGN_OR_RETURN(const ModelConfig config, PresetConfig("gpt2-tiny"));
  OnDevice found;
  for (int rank : {0, 1}) {
    ASSIGN_OR_RETURN(const MeshPlace place, MeshPlace::Of(plan, config, rank));
    const CollectiveKernels kernels(place.mesh, CpuKernels());
    const std::unique_ptr<Device> device =
        NewNullDevice({.memory_bytes = memory, .threads = 1, .kernels = kernels.list()});
    ASSIGN_OR_RETURN(const CompiledTraining training,
                     CompileTraining(config, plan, {}, *device, rank));
    found.bytes = std::max(found.bytes, training.program->plan().device_bytes);
    const Timeline& timeline = training.pipeline->timeline;
    found.kept = Measure(timeline, UniformCosts(timeline.shape, StageCosts())).peak_activations;
    for (const std::string& choice : training.choices) {
      if (choice.starts_with("schedule=searched")) found.choice = choice;
    }
  }
  return found;
}

// Protects: a searched order keeps to the device, where an unlimited one and GPipe do not fit.
TEST(FitScheduleTest, KeepsToTheDevice) {
  ASSERT_OK_AND_ASSIGN(const OnDevice most, Compiled(SearchedPlan(), INT64_MAX));
  EXPECT_THAT(most.choice, HasSubstr("schedule=searched went by predicted times"));
  EXPECT_THAT(most.choice, Not(HasSubstr("keep at most")));
  ASSERT_OK_AND_ASSIGN(const OnDevice same, Compiled(SearchedPlan(), most.bytes));
  EXPECT_EQ(same.kept, most.kept);
  const int64_t memory = most.bytes - most.bytes / 50;
  ASSERT_OK_AND_ASSIGN(const OnDevice less, Compiled(SearchedPlan(), memory));
  EXPECT_LE(less.bytes, memory);
  EXPECT_NE(less.kept, most.kept);
  EXPECT_THAT(less.choice, HasSubstr("since the device has no room for more"));
}

// As any other schedule: refused without a tier below the device.
TEST(FitScheduleTest, StatesAloneDoNotFit) {
  EXPECT_EQ(Compiled(SearchedPlan(), 1 << 20).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace colossus
