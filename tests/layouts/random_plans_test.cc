// Random plans: each runs and equals one rank, or is refused for a reason of docs/layouts.md. Some
// also run by other plans of the same bits, and with the memory manager.
//
//   COLOSSUS_PLANS=500        how many are drawn
//   COLOSSUS_PLAN=137         only this one
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gemini/placement.h"
#include "gtest/gtest.h"
#include "parallel/plan.h"
#include "tests/layouts/compare.h"
#include "tests/layouts/layout_run.h"
#include "tests/layouts/random_plan.h"
#include "tests/placement/placed_run.h"

namespace colossus {
namespace {

// What a refusal may be about, and what its message must say: key, sizes, remedy.
struct Refusal {
  const char* reason;
  std::vector<std::string> says;
};
const std::vector<Refusal>& Refusals() {
  static const auto* const refusals = new std::vector<Refusal>{
      {"heads", {"query heads and", "key/value heads cannot be split over", "would do: "}},
      {"2d needs a square", {"tensor_layout=2d needs a square", "not tensor=", "would do"}},
      {"norms=sharded", {"norms=sharded splits", "do not divide", "use a sequence_length of "}},
      {"ranks of the mesh", {"mesh ", " has ", ", but there are "}},
      {"positions of the model", {"sequence_length ", "is beyond the model's ", " positions"}},
      {"override of an axis", {"override '", "names axis '", "the mesh has "}},
      {"override of a state", {"override '", "matches no state"}},
      {"override of dims", {"override '", " dims; '", "' is ["}},
      {"override that does not divide", {"cannot be split into ", " along dim ", "extent "}},
      {"more parts than blocks", {" parts, but the model has ", " blocks; use at most "}},
      {"borders", {"border", "part"}},
      {"border of no block", {"border '", "' is no block of the model", "blocks are "}},
      {"rows of a stage",
       {"a micro-batch of ", " rows cannot be shared out over data=", "; use a multiple of "}},
      {"chunks without stages", {"chunks and borders have no effect with one stage"}},
      {"chunks of the schedule", {"schedule ", " a stage, not ", ": use chunks="}},
      {"micro-batches of the schedule", {"schedule ", ": use micro_batches="}},
  };
  return *refusals;
}

// Empty: none that may be.
std::string ReasonOf(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kInvalidArgument) return "";
  for (const Refusal& refusal : Refusals()) {
    if (std::all_of(refusal.says.begin(), refusal.says.end(), [&](const std::string& part) {
          return absl::StrContains(status.message(), part);
        })) {
      return refusal.reason;
    }
  }
  return "";
}

// The same rows and micro-batches on one rank.
LayoutRun Alone(LayoutRun run) {
  Plan alone = LayoutPlan({}, run.plan.micro_batch * run.plan.AxisSize("data"),
                          run.plan.micro_batches, run.plan.sequence_length);
  alone.precision = run.plan.precision;
  alone.packed = run.plan.packed;
  alone.dropout = run.plan.dropout;
  run.plan = alone;
  return run;
}

void ExpectAsAlone(const LayoutRun& run, const LayoutResult& result) {
  LayoutRun alone = Alone(run);
  ASSERT_OK_AND_ASSIGN(const LayoutResult expected, Train(alone));
  if (SizeOf(run.plan.precision.compute) >= 4) {
    // A gradient that is zero in exact arithmetic (one key to attend to) is what rounding leaves.
    ExpectEqual(result, expected, {.floor = 1e-6});
    return;
  }
  alone.plan.precision = {};
  alone.loss_scale = 1;
  ASSERT_OK_AND_ASSIGN(const LayoutResult exact, Train(alone));
  ExpectNearLosses(result, expected, exact);
}

// At one mesh nothing else changes bits, and stages of that mesh do not either.
void ExpectBitsOfOtherPlan(LayoutRun run, const LayoutResult& result) {
  if (run.plan.same_meshes()) {
    run.plan.stages.resize(1);
    run.plan.schedule = Plan().schedule;
    run.plan.chunks = 0;
    run.plan.borders.clear();
  }
  run.plan.zero = (run.plan.zero + 1) % 4;
  run.plan.recomputation =
      run.plan.recomputation == Recomputation::kNone ? Recomputation::kBlock : Recomputation::kNone;
  run.overlap = false;
  ASSERT_OK_AND_ASSIGN(const LayoutResult other, Train(run));
  ExpectSameBits(result, other);
}

// Nor does the memory manager, on devices from half above each rank's bound to room for everything.
void ExpectBitsPlaced(const LayoutRun& run, const LayoutResult& result, uint64_t seed) {
  std::mt19937_64 random(seed);
  const DeviceRange range = DeviceRangeOf(run);
  Caps caps;
  for (size_t rank = 0; rank < range.bound.size(); ++rank) {
    caps.device.push_back(Between(range.bound[rank] * 3 / 2, range.plain[rank], random));
  }
  if (random() % 4 == 0) caps.policy = PlacementPolicy::kCpu;
  SCOPED_TRACE(caps.ToString());
  ASSERT_OK_AND_ASSIGN(const LayoutResult placed, Train(Capped(run, caps, random())));
  ExpectSameBits(placed, result);
}

// What a plan that runs is compared with, beside one rank.
struct Others {
  bool plan = false, placement = false;
};

// The reason why it is refused; empty: it runs.
std::string Judge(LayoutRun run, const Others& others) {
  run.updates = SizeOf(run.plan.precision.compute) >= 4 ? 3 : 4;
  const absl::StatusOr<LayoutResult> result = Train(run);
  if (!result.ok()) {
    const std::string reason = ReasonOf(result.status());
    EXPECT_NE(reason, "") << result.status();
    return reason.empty() ? "for no reason" : reason;
  }
  EXPECT_OK(Validate(run.plan, run.config));
  ExpectAsAlone(run, *result);
  if (others.plan) ExpectBitsOfOtherPlan(run, *result);
  if (others.placement) ExpectBitsPlaced(run, *result, run.seed);
  return "";
}

std::optional<int64_t> FromEnvironment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::nullopt : std::optional<int64_t>(std::atoll(text));
}

TEST(RandomPlansTest, RunAsOnOneRankOrAreRefused) {
  const std::optional<int64_t> only = FromEnvironment("COLOSSUS_PLAN");
  const int64_t first = only.value_or(0);
  const int64_t end = only ? first + 1 : FromEnvironment("COLOSSUS_PLANS").value_or(60);
  const uint64_t seed = TestSeed();
  int64_t run = 0;
  std::map<std::string, int64_t> refused;
  for (int64_t i = first; i < end; ++i) {
    const LayoutRun plan = RandomPlan(seed * 100003 + static_cast<uint64_t>(i));
    std::cout << "plan " << i << ": " << PlanLine(plan) << std::endl;
    SCOPED_TRACE(absl::StrCat("COLOSSUS_PLAN=", i, ": ", PlanLine(plan)));
    const Others others{.plan = only || i % 4 == 0, .placement = only || i % 4 == 2};
    const std::string reason = Judge(plan, others);
    if (reason.empty())
      ++run;
    else
      ++refused[reason];
  }
  std::cout << run << " of " << end - first << " plans ran" << std::endl;
  for (const auto& [reason, count] : refused) {
    std::cout << count << " refused: " << reason << std::endl;
  }
  EXPECT_GE(only ? 1 : run * 5, only ? 1 : (end - first) * 4);
}

}  // namespace
}  // namespace colossus
