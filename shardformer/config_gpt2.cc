// The family "gpt2": learned positions, layer norms, biases everywhere, a plain MLP.
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "shardformer/activation.h"
#include "shardformer/config.h"
#include "shardformer/config_common.h"
#include "shardformer/config_family.h"
#include "shardformer/config_reader.h"

namespace colossus {
namespace {

void ReadSizes(ConfigReader& in, ModelConfig& config) {
  const ConfigReader::IntRange width = {1, ConfigReader::kMaxWidth};
  const ConfigReader::IntRange count = {1, ConfigReader::kMaxCount};
  config.vocabulary = in.Int({"vocab_size"}, 50257, width);
  // A table of learned positions is a tensor, so its length is bounded like one.
  config.max_positions = in.Int({"n_positions", "max_position_embeddings"}, 1024, width);
  config.hidden = in.Int({"n_embd", "hidden_size"}, 768, width);
  config.layers = in.Int({"n_layer", "num_hidden_layers"}, 12, count);
  config.heads = in.Int({"n_head", "num_attention_heads"}, 12, count);
  config.kv_heads = config.heads;
  config.mlp = in.IntOrNull({"n_inner"}, std::nullopt, width).value_or(4 * config.hidden);
}

void Read(ConfigReader& in, ModelConfig& config) {
  ReadSizes(in, config);
  ReadHeadDim(in, false, config);
  ReadActivation(in, "activation_function", "gelu_new", config);
  config.norm_epsilon = in.Number({"layer_norm_epsilon"}, 1e-5, {0, 1});
  config.qkv_bias = config.attention_output_bias = config.mlp_bias = true;
  ReadTie(in, true, config);
  config.scale_attention = in.Bool({"scale_attn_weights"}, true);
  config.scale_attention_by_layer = in.Bool({"scale_attn_by_inverse_layer_idx"}, false);
  const ConfigReader::NumberRange dropout = {0, kMaxDropout};
  config.attention_dropout = in.Number({"attn_pdrop"}, 0.1, dropout);
  config.embedding_dropout = in.Number({"embd_pdrop"}, 0.1, dropout);
  config.residual_dropout = in.Number({"resid_pdrop"}, 0.1, dropout);
  config.initializer_range = in.Number({"initializer_range"}, 0.02, {0, 1e3});
  ReadTokens(in, 50256, 50256, config);
  if (in.Bool({"reorder_and_upcast_attn"}, false)) {
    config.notes.push_back(
        "reorder_and_upcast_attn changes the order of roundings only and is always as if false");
  }
  if (in.status().ok()) config.windows.assign(config.layers, 0);
}

absl::Status CheckWritable(const ModelConfig& config) {
  if (config.rope.has_value() || config.kv_heads != config.heads ||
      config.head_dim * config.heads != config.hidden) {
    return absl::InvalidArgumentError(
        "gpt2 has learned positions and as many key/value heads as query heads, which share the "
        "hidden size");
  }
  if (!config.qkv_bias || !config.attention_output_bias || !config.mlp_bias) {
    return absl::InvalidArgumentError("gpt2 has biases in every projection");
  }
  for (int64_t window : config.windows) {
    if (window != 0) return absl::InvalidArgumentError("gpt2 has no attention windows");
  }
  return absl::OkStatus();
}

absl::Status Write(const ModelConfig& config, nlohmann::json& json) {
  const absl::Status writable = CheckWritable(config);
  if (!writable.ok()) return writable;
  json["vocab_size"] = config.vocabulary;
  json["n_positions"] = config.max_positions;
  json["n_embd"] = config.hidden;
  json["n_layer"] = config.layers;
  json["n_head"] = config.heads;
  json["n_inner"] = config.mlp == 4 * config.hidden ? nlohmann::json() : nlohmann::json(config.mlp);
  json["activation_function"] = std::string(Name(config.activation));
  json["layer_norm_epsilon"] = config.norm_epsilon;
  json["tie_word_embeddings"] = config.tie_word_embeddings;
  json["scale_attn_weights"] = config.scale_attention;
  json["scale_attn_by_inverse_layer_idx"] = config.scale_attention_by_layer;
  json["reorder_and_upcast_attn"] = false;
  json["attn_pdrop"] = config.attention_dropout;
  json["embd_pdrop"] = config.embedding_dropout;
  json["resid_pdrop"] = config.residual_dropout;
  json["initializer_range"] = config.initializer_range;
  json["use_cache"] = true;
  WriteTokens(config, json);
  return absl::OkStatus();
}

long double Count(const ModelConfig& config) {
  const long double hidden = config.hidden;
  const long double mlp = config.mlp;
  const long double attention = 4 * hidden * hidden + 4 * hidden;
  const long double norms = 4 * hidden;
  const long double block = attention + 2 * hidden * mlp + mlp + hidden + norms;
  const long double table = hidden * config.vocabulary;
  return config.layers * block + 2 * hidden + hidden * config.max_positions +
         table * (config.tie_word_embeddings ? 1 : 2);
}

}  // namespace

ConfigFamily Gpt2ConfigFamily() { return {"gpt2", Read, Write, Count}; }

}  // namespace colossus
