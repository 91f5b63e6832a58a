#include "trainers/lib/config/loss_scale.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// E5 (i): 65536, 32768, ... 1; the 17th overflow in a row ends the run.
TEST(LossScaleTest, E5_EveryUpdateOverflows) {
  LossScale scale(LossScaleOptions{});
  double expected = 65536;
  for (int overflow = 1; overflow <= 16; ++overflow, expected /= 2) {
    EXPECT_EQ(scale.value(), expected);
    EXPECT_OK(scale.Overflowed());
  }
  EXPECT_EQ(scale.value(), 1);
  EXPECT_THAT(scale.Overflowed(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("loss scale, 1"), HasSubstr("17 in a row"))));
}

// 'o': an overflow, '.': an applied update; the scale after each.
TEST(LossScaleTest, GrowsAndFalls) {
  struct Row {
    LossScaleOptions options;
    const char* updates;
    std::vector<double> scales;
  };
  const Row kTable[] = {
      {{.initial = 8, .growth_interval = 3}, "......", {8, 8, 16, 16, 16, 32}},
      {{.initial = 8, .growth_interval = 3}, "..o...", {8, 8, 4, 4, 4, 8}},
      {{.initial = 16, .factor = 4, .growth_interval = 1}, "o.", {4, 16}},
      // Two overflows are forgiven, in a row or not, until it grows.
      {{.initial = 8, .growth_interval = 3, .hysteresis = 3}, "o.o.oo", {8, 8, 8, 8, 4, 2}},
      {{.initial = 8, .growth_interval = 2, .hysteresis = 2}, "o..oo", {8, 8, 16, 16, 8}},
      {{.initial = 8, .factor = 4, .growth_interval = 9, .minimum = 4}, "o.", {4, 4}},
  };
  for (const Row& row : kTable) {
    LossScale scale(row.options);
    LossScale resumed(row.options);
    std::vector<double> scales;
    for (const char* update = row.updates; *update != '\0'; ++update) {
      // Whenever a run ends, another goes on from its state.
      resumed.set_state(scale.state());
      for (LossScale* each : {&scale, &resumed}) {
        if (*update == 'o') {
          EXPECT_OK(each->Overflowed());
        } else {
          each->Applied();
        }
      }
      EXPECT_EQ(scale.state(), resumed.state());
      scales.push_back(scale.value());
    }
    EXPECT_EQ(scales, row.scales) << row.updates;
  }
}

TEST(LossScaleTest, PowersOfTwoOnly) {
  EXPECT_OK(Validate(LossScaleOptions{.initial = 0.5, .factor = 8, .minimum = 0x1p-20}));
  EXPECT_THAT(Validate(LossScaleOptions{.initial = 1000}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("precision.loss_scale is 1000"), HasSubstr("512 or 1024"))));
  EXPECT_THAT(Validate(LossScaleOptions{.factor = 3}).message(), HasSubstr("loss_scale_factor"));
  EXPECT_THAT(Validate(LossScaleOptions{.initial = 1, .minimum = 2}).message(),
              HasSubstr("below precision.loss_scale_minimum"));
}

// Beyond what fp32 holds the first update would leave NaN behind, or never be applied.
TEST(LossScaleTest, InTheRangeOfFp32) {
  EXPECT_OK(Validate(LossScaleOptions{.initial = 0x1p64, .minimum = 0x1p-64}));
  EXPECT_THAT(Validate(LossScaleOptions{.initial = 0x1p1000}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("precision.loss_scale is 1.07151e+301"),
                             HasSubstr("from 2^-64 to 2^64"))));
  EXPECT_THAT(Validate(LossScaleOptions{.minimum = 0x1p-1000}).message(),
              HasSubstr("precision.loss_scale_minimum is 9.33264e-302"));
}

}  // namespace
}  // namespace colossus
