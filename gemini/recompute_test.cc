#include "gemini/recompute.h"

#include <algorithm>
#include <map>
#include <queue>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

double SecondsOf(const std::vector<RecomputeStage>& chain, const RecomputePlan& plan) {
  double seconds = 0;
  for (const RecomputeStep& step : plan.steps) {
    const RecomputeStage& stage = chain[step.stage];
    const int way = plan.way[step.stage];
    const double backward =
        way == 0 ? stage.backward_seconds : stage.other_ways[way - 1].backward_seconds;
    seconds += step.action == RecomputeAction::kBackward ? backward : stage.forward_seconds;
  }
  return seconds;
}

// Per stage: how often it runs forward beyond once.
std::vector<int> Recomputed(const RecomputePlan& plan) {
  std::vector<int> times(plan.again.size(), 0);
  for (const std::vector<int>& again : plan.again) {
    for (int stage : again) ++times[stage];
  }
  return times;
}

// Protects: forward steps of a uniform chain equal revolve's closed form t(l, c) = r l - C(c+r,
// r-1). The chain's input is one of the c checkpoints and is not counted; the input of the stage
// that goes backward, no checkpoint there, is. One stage's saved values fit at a time.
TEST(RecomputeTest, UniformChains) {
  struct Example {
    int stages, checkpoints;
    int64_t forwards;
  };
  for (const Example& example : {Example{10, 3, 15},
                                 {12, 3, 21},
                                 {24, 4, 51},
                                 {48, 4, 136},
                                 {48, 6, 108},
                                 {96, 8, 233},
                                 {96, 10, 210}}) {
    SCOPED_TRACE(absl::StrCat(example.stages, " stages, ", example.checkpoints, " checkpoints"));
    const std::vector<RecomputeStage> chain(
        example.stages,
        {.forward_seconds = 1, .backward_seconds = 2, .output_bytes = 1, .saved_bytes = 100});
    const int64_t budget = example.checkpoints + 100;
    ASSERT_OK_AND_ASSIGN(
        RecomputePlan plan,
        PlanRecompute(chain, {.budget_bytes = budget, .slots = static_cast<int>(budget)}));
    int64_t forwards = 0;
    for (const RecomputeStep& step : plan.steps) {
      forwards += step.action == RecomputeAction::kForward ||
                  step.action == RecomputeAction::kCheckpoint;
    }
    EXPECT_EQ(forwards, example.forwards);
    EXPECT_LE(PeakBytes(chain, plan.steps), budget);
    EXPECT_DOUBLE_EQ(SecondsOf(chain, plan), plan.seconds);
  }
}

TEST(RecomputeTest, Extremes) {
  const std::vector<RecomputeStage> chain(
      4, {.forward_seconds = 1, .backward_seconds = 2, .output_bytes = 1, .saved_bytes = 10});
  ASSERT_OK_AND_ASSIGN(RecomputePlan all, PlanRecompute(chain, {.budget_bytes = 40}));
  EXPECT_THAT(Recomputed(all), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(all.seconds, 12);
  EXPECT_EQ(PeakBytes(chain, all.steps), 40);
  // Room for one stage's values and a checkpoint of each of the others: all but the last twice.
  ASSERT_OK_AND_ASSIGN(RecomputePlan once, PlanRecompute(chain, {.budget_bytes = 13}));
  EXPECT_THAT(Recomputed(once), ElementsAre(1, 1, 1, 0));
  // The least: every backward starts from the input.
  ASSERT_OK_AND_ASSIGN(RecomputePlan least, PlanRecompute(chain, {.budget_bytes = 11}));
  EXPECT_EQ(LeastRecomputeBudget(chain), 11);
  EXPECT_THAT(Recomputed(least), ElementsAre(3, 2, 1, 0));
  EXPECT_THAT(least.again, ElementsAre(ElementsAre(0), ElementsAre(0, 1), ElementsAre(0, 1, 2),
                                       ElementsAre()));
  EXPECT_THAT(PlanRecompute(chain, {.budget_bytes = 10}).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("needs 11 bytes")));
  ASSERT_OK_AND_ASSIGN(RecomputePlan none, PlanRecompute({}, {}));
  EXPECT_TRUE(none.steps.empty());
}

// ---- All schedules that keep what they kept until backward has used it, by shortest paths.

struct State {
  int back;           // stages from here on have run backward
  int inputs;         // bits: x_{i-1} kept as a checkpoint
  int saved;          // two bits a stage: what of stage i is kept, 1 + way; 0: nothing
  int passing;        // x of this stage is there; -1: none
  friend auto operator<=>(const State&, const State&) = default;
};

class BruteForce {
 public:
  BruteForce(const std::vector<RecomputeStage>& chain, int64_t budget)
      : chain_(chain), budget_(budget) {}

  // Less than 0: impossible.
  double Run() {
    Reach({static_cast<int>(chain_.size()), 0, 0, -1}, 0);
    while (!queue_.empty()) {
      const auto [seconds, state] = queue_.top();
      queue_.pop();
      if (seconds > best_[state]) continue;
      if (state.back == 0) return seconds;
      Expand(state, seconds);
    }
    return -1;
  }

 private:
  using Entry = std::pair<double, State>;

  void Reach(const State& state, double seconds) {
    auto [found, added] = best_.try_emplace(state, seconds);
    if (!added && found->second <= seconds) return;
    found->second = seconds;
    queue_.push({seconds, state});
  }

  int64_t Output(int i) const { return i < 0 ? 0 : chain_[i].output_bytes; }

  static int Saved(const State& state, int i) { return state.saved >> (2 * i) & 3; }

  SaveWay WayOf(int i, int way) const {
    const RecomputeStage& stage = chain_[i];
    if (way > 0) return stage.other_ways[way - 1];
    return {stage.saved_bytes, stage.backward_seconds};
  }

  int64_t Kept(const State& state) const {
    int64_t bytes = chain_[state.back - 1].gradient_bytes;
    for (int i = 0; i < state.back; ++i) {
      if (state.inputs >> i & 1) bytes += Output(i - 1);
      if (Saved(state, i) > 0) bytes += WayOf(i, Saved(state, i) - 1).saved_bytes;
    }
    return bytes;
  }

  void Expand(const State& state, double seconds) {
    const int64_t kept = Kept(state);
    for (int i = 0; i < state.back; ++i) {
      const RecomputeStage& stage = chain_[i];
      const bool given = i == 0 || (state.inputs >> i & 1) || Saved(state, i - 1) > 0;
      const bool passing = i > 0 && state.passing == i - 1;
      if (!given && passing) {  // keep it
        Reach({state.back, state.inputs | 1 << i, state.saved, -1}, seconds);
      }
      if (!given && !passing) continue;
      const int64_t before = kept + (given ? 0 : Output(i - 1)) + stage.forward_bytes;
      if (before + stage.output_bytes <= budget_) {
        Reach({state.back, state.inputs, state.saved, i}, seconds + stage.forward_seconds);
      }
      if (!given) continue;
      const int ways = 1 + static_cast<int>(stage.other_ways.size());
      for (int w = 0; w < ways && Saved(state, i) == 0; ++w) {
        if (before + WayOf(i, w).saved_bytes > budget_) continue;
        Reach({state.back, state.inputs, state.saved | (1 + w) << (2 * i), -1},
              seconds + stage.forward_seconds);
      }
      if (i == state.back - 1 && Saved(state, i) > 0 && kept + stage.backward_bytes <= budget_) {
        Reach({i, state.inputs & ~(1 << i), state.saved & ~(3 << (2 * i)), -1},
              seconds + WayOf(i, Saved(state, i) - 1).backward_seconds);
      }
    }
  }

  const std::vector<RecomputeStage>& chain_;
  const int64_t budget_;
  std::map<State, double> best_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

std::vector<RecomputeStage> RandomChain(std::mt19937_64& random, int stages) {
  std::vector<RecomputeStage> chain;
  for (int i = 0; i < stages; ++i) {
    RecomputeStage stage;
    stage.forward_seconds = 1 + static_cast<double>(random() % 9);
    stage.backward_seconds = 1 + static_cast<double>(random() % 9);
    stage.output_bytes = 1 + static_cast<int64_t>(random() % 4);
    stage.gradient_bytes = stage.output_bytes;
    stage.saved_bytes = stage.output_bytes + static_cast<int64_t>(random() % 9);
    stage.forward_bytes = static_cast<int64_t>(random() % 3);
    stage.backward_bytes = static_cast<int64_t>(random() % 5);
    // Of the longest chains there would be too many schedules to try.
    for (uint64_t way = stages > 8 ? 0 : random() % 3; way > 0; --way) {
      const int64_t beside = stage.saved_bytes - stage.output_bytes;
      stage.other_ways.push_back(
          {stage.output_bytes + static_cast<int64_t>(random() % (beside + 1)),
           stage.backward_seconds + 1 + static_cast<double>(random() % 4)});
    }
    chain.push_back(stage);
  }
  return chain;
}

// Protects: no schedule is cheaper, for any sizes, times and budget, up to 12 stages.
TEST(RecomputeTest, EqualToBruteForce) {
  const uint64_t seed = TestSeed();
  for (uint64_t g = seed; g < seed + 100; ++g) {
    SCOPED_TRACE(absl::StrCat("seed ", g));
    std::mt19937_64 random(g);
    const int stages = g < seed + 1 ? 12 : 1 + static_cast<int>(random() % 7);
    const std::vector<RecomputeStage> chain = RandomChain(random, stages);
    const int64_t least = LeastRecomputeBudget(chain);
    const int64_t budget = least + static_cast<int64_t>(random() % 16);
    ASSERT_OK_AND_ASSIGN(RecomputePlan plan, PlanRecompute(chain, {.budget_bytes = budget}));
    EXPECT_DOUBLE_EQ(SecondsOf(chain, plan), plan.seconds);
    EXPECT_LE(PeakBytes(chain, plan.steps), budget);
    EXPECT_DOUBLE_EQ(plan.seconds, BruteForce(chain, budget).Run());
    if (stages == 12) continue;
    EXPECT_LT(BruteForce(chain, least - 1).Run(), 0);
  }
}

// Protects: rounding sizes to slots costs a little time, never memory.
TEST(RecomputeTest, Slots) {
  std::mt19937_64 random(TestSeed());
  std::vector<RecomputeStage> chain = RandomChain(random, 24);
  for (RecomputeStage& stage : chain) {
    for (int64_t* bytes : {&stage.output_bytes, &stage.gradient_bytes, &stage.saved_bytes,
                           &stage.forward_bytes, &stage.backward_bytes}) {
      *bytes *= 999'983;
    }
    for (SaveWay& way : stage.other_ways) way.saved_bytes *= 999'983;
  }
  const int64_t budget = LeastRecomputeBudget(chain) * 2;
  ASSERT_OK_AND_ASSIGN(RecomputePlan coarse,
                       PlanRecompute(chain, {.budget_bytes = budget, .slots = 100}));
  ASSERT_OK_AND_ASSIGN(RecomputePlan fine,
                       PlanRecompute(chain, {.budget_bytes = budget, .slots = 2000}));
  EXPECT_LE(PeakBytes(chain, coarse.steps), budget);
  EXPECT_LE(PeakBytes(chain, fine.steps), budget);
  EXPECT_LE(fine.seconds, coarse.seconds);
  EXPECT_LE(coarse.seconds, 1.2 * fine.seconds);
}

}  // namespace
}  // namespace colossus
