#include "trainers/lib/config/loss_scale.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "base/status.h"

namespace colossus {
namespace {

// Gradients that are all zero never overflow; the seed of the backward must stay finite.
constexpr double kMost = 0x1p64;

bool IsPowerOfTwo(double value) {
  int exponent;
  return value > 0 && std::isfinite(value) && std::frexp(value, &exponent) == 0.5;
}

// Below, gradients of fp32 would be lost too, and with them what undoes the scale.
constexpr double kLeast = 1 / kMost;

absl::Status CheckScale(const char* key, double value) {
  if (value >= kLeast && value <= kMost) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s is %g; it must be from 2^-64 to 2^64, so that fp32 holds what is scaled", key, value));
}

absl::Status CheckPower(const char* key, double value) {
  if (IsPowerOfTwo(value)) return absl::OkStatus();
  const double below = std::exp2(std::floor(std::log2(value)));
  return absl::InvalidArgumentError(
      absl::StrFormat("%s is %g; it must be a power of two, so that scaling is exact: %g or %g",
                      key, value, below, 2 * below));
}

}  // namespace

LossScaleOptions ReadLossScale(const Options::Precision& precision) {
  return {.initial = precision.loss_scale,
          .factor = precision.loss_scale_factor,
          .growth_interval = precision.loss_scale_growth_interval,
          .hysteresis = precision.loss_scale_hysteresis,
          .minimum = precision.loss_scale_minimum};
}

absl::Status Validate(const LossScaleOptions& options) {
  RETURN_IF_ERROR(CheckScale("precision.loss_scale", options.initial));
  RETURN_IF_ERROR(CheckScale("precision.loss_scale_minimum", options.minimum));
  RETURN_IF_ERROR(CheckPower("precision.loss_scale", options.initial));
  RETURN_IF_ERROR(CheckPower("precision.loss_scale_factor", options.factor));
  RETURN_IF_ERROR(CheckPower("precision.loss_scale_minimum", options.minimum));
  if (options.minimum <= options.initial) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("precision.loss_scale is %g, below precision.loss_scale_minimum, %g",
                      options.initial, options.minimum));
}

void LossScale::Applied() {
  state_.in_a_row = 0;
  if (++state_.applied < options_.growth_interval) return;
  state_.applied = 0;
  state_.overflows = 0;
  state_.value = std::min(state_.value * options_.factor, kMost);
}

absl::Status LossScale::Overflowed() {
  state_.applied = 0;
  ++state_.in_a_row;
  state_.overflows = std::min(state_.overflows + 1, options_.hysteresis);
  if (state_.overflows < options_.hysteresis) return absl::OkStatus();
  if (state_.value <= options_.minimum) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "the gradients overflow fp16 at the smallest loss scale, %g (%d in a row); a smaller "
        "optimizer.learning_rate or precision.loss_scale_minimum, or precision.compute = \"bf16\" "
        "may help",
        options_.minimum, state_.in_a_row));
  }
  state_.value = std::max(state_.value / options_.factor, options_.minimum);
  return absl::OkStatus();
}

}  // namespace colossus
