#include "shardformer/config_decoder.h"

#include <string>

#include "shardformer/activation.h"
#include "shardformer/config_common.h"

namespace colossus {

void ReadDecoder(ConfigReader& in, const DecoderDefaults& defaults, ModelConfig& config) {
  const ConfigReader::IntRange width = {1, ConfigReader::kMaxWidth};
  const ConfigReader::IntRange count = {1, ConfigReader::kMaxCount};
  config.vocabulary = in.Int({"vocab_size"}, defaults.vocabulary, width);
  config.max_positions =
      in.Int({"max_position_embeddings"}, defaults.max_positions, {1, ConfigReader::kMaxPositions});
  config.layers = in.Int({"num_hidden_layers"}, 32, count);
  config.hidden = in.Int({"hidden_size"}, 4096, width);
  config.heads = in.Int({"num_attention_heads"}, 32, count);
  config.kv_heads =
      in.IsNull("num_key_value_heads")
          ? config.heads
          : in.Int({"num_key_value_heads"}, defaults.kv_heads.value_or(config.heads), count);
  config.mlp = in.Int({"intermediate_size"}, defaults.mlp, width);
  ReadActivation(in, "hidden_act", "silu", config);
  config.norm_epsilon = in.Number({"rms_norm_eps"}, 1e-6, {0, 1});
  config.attention_dropout =
      in.NumberOrNull({"attention_dropout"}, 0, {0, kMaxDropout}).value_or(0);
  config.initializer_range = in.Number({"initializer_range"}, 0.02, {0, 1e3});
  ReadTie(in, false, config);
  ReadTokens(in, defaults.bos_id, defaults.eos_id, config);
  ReadHeadDim(in, true, config);
  if (in.status().ok()) ReadRope(in, 10000.0, config);
}

absl::Status WriteDecoder(const ModelConfig& config, nlohmann::json& json) {
  if (!config.rope.has_value()) {
    return absl::InvalidArgumentError("the model has no rotary positions, but its family has");
  }
  json["vocab_size"] = config.vocabulary;
  json["max_position_embeddings"] = config.max_positions;
  json["num_hidden_layers"] = config.layers;
  json["hidden_size"] = config.hidden;
  json["num_attention_heads"] = config.heads;
  json["num_key_value_heads"] = config.kv_heads;
  json["head_dim"] = config.head_dim;
  json["intermediate_size"] = config.mlp;
  json["hidden_act"] = std::string(Name(config.activation));
  json["rms_norm_eps"] = config.norm_epsilon;
  json["attention_dropout"] = config.attention_dropout;
  json["initializer_range"] = config.initializer_range;
  json["tie_word_embeddings"] = config.tie_word_embeddings;
  json["use_cache"] = true;
  WriteTokens(config, json);
  WriteRope(*config.rope, json);
  return absl::OkStatus();
}

long double CountDecoder(const ModelConfig& config) {
  const long double hidden = config.hidden;
  const long double query = static_cast<long double>(config.heads) * config.head_dim;
  const long double keys = static_cast<long double>(config.kv_heads) * config.head_dim;
  const long double mlp = config.mlp;
  long double block = 2 * hidden * (query + keys) + 3 * hidden * mlp + 2 * hidden;
  if (config.qkv_bias) block += query + 2 * keys;
  if (config.attention_output_bias) block += hidden;
  if (config.mlp_bias) block += 2 * mlp + hidden;
  const long double table = hidden * config.vocabulary;
  return config.layers * block + hidden + table * (config.tie_word_embeddings ? 1 : 2);
}

}  // namespace colossus
