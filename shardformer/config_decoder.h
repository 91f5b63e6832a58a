// The config.json of decoders built like Llama: RMS norms, rotary positions, grouped query heads,
// a gated MLP. Llama, Mistral and Qwen2 differ in defaults, biases and windows only.
//
// Thread-safety: none (they write to the config and the reader they are given).
#ifndef COLOSSUS_SHARDFORMER_CONFIG_DECODER_H_
#define COLOSSUS_SHARDFORMER_CONFIG_DECODER_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "shardformer/config.h"
#include "shardformer/config_reader.h"

namespace colossus {

// What absent keys mean. Sizes as in ModelConfig.
struct DecoderDefaults {
  int64_t vocabulary;
  int64_t max_positions;
  int64_t mlp;
  std::optional<int64_t> kv_heads;  // none: as many as query heads (null means that everywhere)
  std::optional<int64_t> bos_id;
  std::optional<int64_t> eos_id;
};

// Everything but biases and windows, which are left as they are.
void ReadDecoder(ConfigReader& in, const DecoderDefaults& defaults, ModelConfig& config);

// The same keys. InvalidArgument without rope.
absl::Status WriteDecoder(const ModelConfig& config, nlohmann::json& json);

long double CountDecoder(const ModelConfig& config);

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_CONFIG_DECODER_H_
