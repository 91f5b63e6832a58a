// Parts of config.json that several families share, for the config_<family>.cc files.
//
// Thread-safety: none (they write to the config and the reader they are given).
#ifndef COLOSSUS_SHARDFORMER_CONFIG_COMMON_H_
#define COLOSSUS_SHARDFORMER_CONFIG_COMMON_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "shardformer/config.h"
#include "shardformer/config_reader.h"

namespace colossus {

// Probabilities of dropping end before 1: nothing would be left to scale up.
inline constexpr double kMaxDropout = 0.999;

// bos_token_id, eos_token_id and pad_token_id; an absent pad is none. -1 means none.
void ReadTokens(ConfigReader& in, std::optional<int64_t> bos_if_absent,
                std::optional<int64_t> eos_if_absent, ModelConfig& config);
void WriteTokens(const ModelConfig& config, nlohmann::json& json);

// tie_word_embeddings.
void ReadTie(ConfigReader& in, bool if_absent, ModelConfig& config);

// The activation under `key`; "silu" and so on.
void ReadActivation(ConfigReader& in, const char* key, const char* if_absent, ModelConfig& config);

// head_dim where `may_be_given`, else and where absent or null hidden / heads. Refuses widths and
// head counts that do not divide. REQUIRES: hidden, heads and kv_heads are read.
void ReadHeadDim(ConfigReader& in, bool may_be_given, ModelConfig& config);

// Whether layers have a window (use_sliding_window), how wide it is (sliding_window; null and 0:
// none), and which layers: layer_types if given, else all from max_window_layers on.
struct WindowDefaults {
  bool used;            // use_sliding_window
  int64_t window;       // sliding_window, in tokens
  int64_t first_layer;  // max_window_layers
};
// REQUIRES: layers is read.
void ReadWindows(ConfigReader& in, WindowDefaults defaults, ModelConfig& config);

// Rotary embedding from rope_parameters, or rope_scaling and rope_theta. Heads turn whole: a
// partial_rotary_factor other than 1 is refused. REQUIRES: max_positions and head_dim are read.
void ReadRope(ConfigReader& in, double theta_if_absent, ModelConfig& config);
// As rope_theta and rope_scaling.
void WriteRope(const RopeParameters& rope, nlohmann::json& json);

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_CONFIG_COMMON_H_
