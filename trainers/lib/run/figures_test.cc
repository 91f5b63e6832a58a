// The small pure functions: schedule, flops and progress.
#include <cmath>
#include <cstdint>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "trainers/lib/config/options.h"
#include "trainers/lib/report/flops.h"
#include "trainers/lib/report/progress.h"
#include "trainers/lib/run/schedule.h"

namespace colossus {
namespace {

TEST(ScheduleTest, E3WarmUpThenCosine) {
  Options options;
  options.optimizer.learning_rate = 1e-3;
  options.schedule.warmup_steps = 100;
  const RateSchedule schedule = MakeSchedule(options, 1000);
  // Relative 1e-6 as the case asks; the arithmetic is exact to a few units in the last place.
  EXPECT_NEAR(LearningRate(schedule, 50), 5e-4, 5e-10);
  EXPECT_NEAR(LearningRate(schedule, 100), 1e-3, 1e-9);
  EXPECT_NEAR(LearningRate(schedule, 550), 5e-4, 5e-10);
  EXPECT_NEAR(LearningRate(schedule, 1000), 0, 1e-18);
  EXPECT_GT(LearningRate(schedule, 999), 0);
  EXPECT_EQ(LearningRate(schedule, 0), 0);
}

TEST(ScheduleTest, KindsAndMinimum) {
  RateSchedule schedule = {.kind = ScheduleKind::kConstant, .peak = 2, .warmup = 0, .total = 10};
  EXPECT_EQ(LearningRate(schedule, 0), 2);
  EXPECT_EQ(LearningRate(schedule, 10000), 2);
  schedule.kind = ScheduleKind::kLinear;
  schedule.minimum_ratio = 0.5;
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 0), 2);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 5), 1.5);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 10), 1);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 20), 1);
}

TEST(ScheduleTest, TotalWithinTheWarmUpNeverDividesByZero) {
  const RateSchedule schedule = {
      .kind = ScheduleKind::kCosine, .peak = 1, .warmup = 10, .total = 10};
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 9), 0.9);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 10), 1);
  EXPECT_NEAR(LearningRate(schedule, 11), 0, 1e-15);
}

TEST(FlopsTest, SixPerParameterAndAttention) {
  EXPECT_EQ(ModelFlopsPerToken({.matmul_parameters = 10}), 60);
  EXPECT_EQ(
      ModelFlopsPerToken({.matmul_parameters = 10, .layers = 2, .sequence_length = 3, .hidden = 4}),
      6 * 10 + 6 * 2 * 3 * 4);
  EXPECT_EQ(Utilization(60, 10, 0), 0);
}

TEST(ProgressTest, H3ProgressFigures) {
  const Progress p = ComputeProgress({
      .step = 12,
      .last_step = 100,
      .rows = 4 * 8 * 2,  // micro-batch x accumulation x data-parallel
      .sequence_length = 1024,
      .counting_tokens = 65536 - 6554,
      .devices = 2,
      .seconds = 2.0,
      .flops_per_token = ModelFlopsPerToken({.matmul_parameters = 10000000}),
      .peak_flops_per_second = 2e12,
  });
  EXPECT_EQ(p.tokens_per_update, 65536);
  EXPECT_DOUBLE_EQ(p.tokens_per_second, 32768);
  EXPECT_DOUBLE_EQ(p.tokens_per_second_device, 16384);
  EXPECT_NEAR(p.utilization, 0.4915, 5e-5);
  EXPECT_NEAR(p.padding_share, 0.1, 1e-4);
  EXPECT_EQ(p.updates_left, 88);
  EXPECT_DOUBLE_EQ(p.seconds_left, 176);
  EXPECT_THAT(
      ProgressLine(p),
      testing::AllOf(testing::HasSubstr("step 12/100"), testing::HasSubstr("32768 tok/s"),
                     testing::HasSubstr("49.2 %"), testing::HasSubstr("88 left, 2 m 56 s")));
}

TEST(ProgressTest, Texts) {
  EXPECT_EQ(DurationText(12.4), "12 s");
  EXPECT_EQ(DurationText(3600 * 3 + 60 * 12 + 1), "3 h 12 m");
  EXPECT_EQ(BytesText(int64_t{3} << 29), "1.50 GiB");
  EXPECT_EQ(BytesText(int64_t{12} << 20), "12.0 MiB");
  EXPECT_GT(HostPeakBytes(), 1 << 20);
}

}  // namespace
}  // namespace colossus
