#include "shardformer/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status.h"

namespace colossus {
namespace {

constexpr std::pair<absl::string_view, RopeType> kTypes[] = {
    {"default", RopeType::kDefault}, {"linear", RopeType::kLinear}, {"dynamic", RopeType::kDynamic},
    {"llama3", RopeType::kLlama3},   {"yarn", RopeType::kYarn},
};

absl::Status CheckParameters(const RopeParameters& rope, int64_t rotary_dim,
                             int64_t max_positions) {
  if (rotary_dim <= 0 || rotary_dim % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%d entries of a head cannot turn in pairs; the number must be even", rotary_dim));
  }
  // Written so that NaN is refused, too.
  if (!(rope.theta > 0 && std::isfinite(rope.theta))) {
    return absl::InvalidArgumentError(
        absl::StrFormat("rope_theta %g is not a positive number", rope.theta));
  }
  if (!(rope.factor > 0 && std::isfinite(rope.factor))) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the rope factor %g is not a positive number", rope.factor));
  }
  const bool has_original = rope.type == RopeType::kLlama3 || rope.type == RopeType::kYarn;
  if (has_original && rope.original_max_positions <= 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("rope type %s needs original_max_position_embeddings above 0, not %d",
                        Name(rope.type), rope.original_max_positions));
  }
  if (rope.type == RopeType::kLlama3 &&
      !(rope.low_freq_factor > 0 && rope.high_freq_factor > rope.low_freq_factor)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "rope type llama3 needs 0 < low_freq_factor < high_freq_factor, not %g and %g",
        rope.low_freq_factor, rope.high_freq_factor));
  }
  if (rope.type == RopeType::kYarn &&
      !(rope.beta_slow > 0 && rope.beta_fast >= rope.beta_slow && rope.theta > 1)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "rope type yarn needs rope_theta above 1 and 0 < beta_slow <= beta_fast, not %g, %g and %g",
        rope.theta, rope.beta_slow, rope.beta_fast));
  }
  if (rope.type == RopeType::kDynamic && (rotary_dim <= 2 || max_positions <= 0)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "rope type dynamic needs more than 2 turning entries and a positive length, not %d and %d",
        rotary_dim, max_positions));
  }
  return absl::OkStatus();
}

std::vector<double> Powers(double theta, int64_t rotary_dim) {
  std::vector<double> inverse;
  for (int64_t i = 0; i < rotary_dim; i += 2) {
    inverse.push_back(1.0 / std::pow(theta, static_cast<double>(i) / rotary_dim));
  }
  return inverse;
}

// theta such that the longest wavelength is stretched as much as the sequence exceeds the model's
// length.
double DynamicTheta(const RopeParameters& rope, int64_t rotary_dim, int64_t max_positions,
                    int64_t sequence_length) {
  const double length = static_cast<double>(std::max(sequence_length, max_positions));
  const double stretch = rope.factor * length / max_positions - (rope.factor - 1);
  return rope.theta * std::pow(stretch, static_cast<double>(rotary_dim) / (rotary_dim - 2));
}

double Llama3Frequency(const RopeParameters& rope, double frequency) {
  const double turns = rope.original_max_positions * frequency / (2 * std::numbers::pi);
  if (turns < rope.low_freq_factor) return frequency / rope.factor;
  if (turns > rope.high_freq_factor) return frequency;
  const double kept =
      (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - kept) * frequency / rope.factor + kept * frequency;
}

// The (fractional) entry whose pair makes `turns` turns over the original positions.
double YarnEntry(const RopeParameters& rope, int64_t rotary_dim, double turns) {
  return rotary_dim * std::log(rope.original_max_positions / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(rope.theta));
}

void ScaleYarn(const RopeParameters& rope, int64_t rotary_dim, std::vector<double>& inverse) {
  double low = YarnEntry(rope, rotary_dim, rope.beta_fast);
  double high = YarnEntry(rope, rotary_dim, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, rotary_dim - 1.0);
  if (low == high) high += 0.001;  // an upright ramp
  for (size_t i = 0; i < inverse.size(); ++i) {
    const double divided = std::clamp((i - low) / (high - low), 0.0, 1.0);
    inverse[i] = inverse[i] / rope.factor * divided + inverse[i] * (1 - divided);
  }
}

double YarnAttentionFactor(const RopeParameters& rope) {
  if (rope.attention_factor.has_value()) return *rope.attention_factor;
  const auto scale = [&rope](double mscale) {
    return rope.factor <= 1 ? 1.0 : 0.1 * mscale * std::log(rope.factor) + 1.0;
  };
  // A zero counts as not given, as where these parameters come from.
  if (rope.mscale.value_or(0) != 0 && rope.mscale_all_dim.value_or(0) != 0) {
    return scale(*rope.mscale) / scale(*rope.mscale_all_dim);
  }
  return scale(1);
}

}  // namespace

absl::string_view Name(RopeType type) {
  for (const auto& [name, known] : kTypes) {
    if (known == type) return name;
  }
  CHECK(false) << "no such rope type: " << static_cast<int>(type);
  return "";
}

absl::StatusOr<RopeType> ParseRopeType(absl::string_view wanted) {
  std::string names;
  for (const auto& [name, type] : kTypes) {
    if (name == wanted) return type;
    absl::StrAppend(&names, names.empty() ? "" : ", ", name);
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("the rope type \"%s\" is not supported; supported: %s", wanted, names));
}

absl::StatusOr<RopeFrequencies> ComputeRopeFrequencies(const RopeParameters& rope,
                                                       int64_t rotary_dim, int64_t max_positions,
                                                       int64_t sequence_length) {
  RETURN_IF_ERROR(CheckParameters(rope, rotary_dim, max_positions));
  RopeFrequencies result;
  const double theta = rope.type == RopeType::kDynamic
                           ? DynamicTheta(rope, rotary_dim, max_positions, sequence_length)
                           : rope.theta;
  result.inverse_frequencies = Powers(theta, rotary_dim);
  std::vector<double>& inverse = result.inverse_frequencies;
  switch (rope.type) {
    case RopeType::kDefault:
    case RopeType::kDynamic:
      break;
    case RopeType::kLinear:
      for (double& frequency : inverse) frequency /= rope.factor;
      break;
    case RopeType::kLlama3:
      for (double& frequency : inverse) frequency = Llama3Frequency(rope, frequency);
      break;
    case RopeType::kYarn:
      ScaleYarn(rope, rotary_dim, inverse);
      result.attention_factor = YarnAttentionFactor(rope);
      break;
  }
  return result;
}

}  // namespace colossus
