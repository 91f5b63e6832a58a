#include "parallel/plan.h"

#include <functional>

#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

ModelConfig LearnedPositions() {
  ModelConfig config;
  config.max_positions = 8;
  return config;
}

Plan Good() {
  Plan plan;
  plan.micro_batch = 2;
  plan.micro_batches = 3;
  plan.sequence_length = 8;
  return plan;
}

// Protects: what works stays allowed.
TEST(PlanTest, Accepts) {
  EXPECT_EQ(Good().rows(), 6);
  EXPECT_OK(Validate(Good(), LearnedPositions()));
  Plan plan = Good();
  plan.stages[0].mesh = {{"data", 1}};
  plan.precision = {DType::kBF16, DType::kBF16};
  EXPECT_OK(Validate(plan, LearnedPositions()));
  plan.precision = {DType::kF64, DType::kF64};
  EXPECT_OK(Validate(plan, LearnedPositions()));
  // Rotary positions have no table to run out of.
  ModelConfig rotary = LearnedPositions();
  rotary.rope = RopeParameters{};
  plan.sequence_length = 9;
  EXPECT_OK(Validate(plan, rotary));
}

// Protects: a plan that cannot run is refused with its reason.
TEST(PlanTest, Refuses) {
  const struct {
    const char* message;
    std::function<void(Plan&)> change;
  } rows[] = {
      {"one stage on one rank", [](Plan& p) { p.stages.push_back({}); }},
      {"one stage on one rank", [](Plan& p) { p.stages.clear(); }},
      {"one stage on one rank", [](Plan& p) { p.stages[0].ranks = {0, 1}; }},
      {"mesh axis data=2", [](Plan& p) { p.stages[0].mesh = {{"data", 2}}; }},
      {"at least 1", [](Plan& p) { p.micro_batch = 0; }},
      {"at least 1", [](Plan& p) { p.micro_batches = -1; }},
      {"at least 1", [](Plan& p) { p.sequence_length = 0; }},
      {"smaller micro_batch", [](Plan& p) { p.micro_batch = int64_t{1} << 50; }},
      {"smaller global_batch", [](Plan& p) { p.micro_batches = int64_t{1} << 40; }},
      {"sequence_length 9 is beyond the model's 8", [](Plan& p) { p.sequence_length = 9; }},
      {"float types, not i32", [](Plan& p) { p.precision.compute = DType::kI32; }},
      {"gradients in u8", [](Plan& p) { p.precision.gradient = DType::kU8; }},
      {"f64 goes with f64", [](Plan& p) { p.precision.compute = DType::kF64; }},
      {"f64 goes with f64", [](Plan& p) { p.precision.gradient = DType::kF64; }},
  };
  for (const auto& row : rows) {
    Plan plan = Good();
    row.change(plan);
    EXPECT_THAT(Validate(plan, LearnedPositions()),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(row.message)));
  }
}

TEST(PlanTest, Names) {
  EXPECT_EQ(Name(Recomputation::kNone), "none");
  EXPECT_EQ(Name(Recomputation::kCheap), "cheap");
  EXPECT_EQ(Name(Recomputation::kBlock), "block");
}

}  // namespace
}  // namespace colossus
