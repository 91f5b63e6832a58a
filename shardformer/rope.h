// Rotary position embedding: the angle by which each pair of entries of a head turns per position,
// for every scaling type of config.json.
//
// Position p turns pair i by p * inverse_frequencies[i]; the cosines and sines are multiplied by
// attention_factor. Which entries form a pair is the model family's affair.
//
// Thread-safe: values and pure functions only.
//
//   ASSIGN_OR_RETURN(RopeFrequencies rope,
//                    ComputeRopeFrequencies(*config.rope, config.head_dim, config.max_positions,
//                                           sequence_length));
#ifndef COLOSSUS_SHARDFORMER_ROPE_H_
#define COLOSSUS_SHARDFORMER_ROPE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace colossus {

enum class RopeType {
  kDefault,  // theta^(-2i/n)
  kLinear,   // all frequencies divided by factor
  kDynamic,  // theta grows with the sequence length beyond max_positions ("dynamic NTK")
  kLlama3,   // long wavelengths divided by factor, short ones kept, a smooth passage between
  kYarn,     // the same idea with a ramp over the pairs, and scaled cosines and sines
};

// "default", "linear", "dynamic", "llama3", "yarn".
absl::string_view Name(RopeType type);
// InvalidArgument, listing the names, for others.
absl::StatusOr<RopeType> ParseRopeType(absl::string_view name);

struct RopeParameters {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;              // base of the wavelengths
  bool theta_was_read = false;         // false: the family's default
  double factor = 1.0;                 // every type but default; > 0
  int64_t original_max_positions = 0;  // llama3, yarn: positions before the extension
  double low_freq_factor = 0.0;        // llama3: wavelengths from original / low on are divided
  double high_freq_factor = 0.0;       // llama3: wavelengths up to original / high are kept
  // yarn only from here on. No attention factor: from factor and, if both are given, the mscales.
  std::optional<double> attention_factor = std::nullopt;
  std::optional<double> mscale = std::nullopt;
  std::optional<double> mscale_all_dim = std::nullopt;
  double beta_fast = 32.0;  // pairs from this many turns over the original positions on are kept
  double beta_slow = 1.0;   // pairs up to this many turns are divided by factor
  bool truncate = true;     // the ramp's ends are rounded to whole pairs

  bool operator==(const RopeParameters&) const = default;
};

struct RopeFrequencies {
  // [rotary_dim / 2] radians per position. Computed in double; round once when making a table.
  std::vector<double> inverse_frequencies;
  double attention_factor = 1.0;
};

// `rotary_dim`: entries of a head that are turned, even and positive. `max_positions`: the model's
// declared length. `sequence_length`: length at hand; only the dynamic type depends on it, and only
// beyond max_positions. InvalidArgument for parameters outside of what the types can compute with.
absl::StatusOr<RopeFrequencies> ComputeRopeFrequencies(const RopeParameters& rope,
                                                       int64_t rotary_dim, int64_t max_positions,
                                                       int64_t sequence_length);

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_ROPE_H_
