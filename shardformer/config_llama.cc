// The family "llama": Llama 1 to 3 and what is built like them.
#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "shardformer/config.h"
#include "shardformer/config_common.h"
#include "shardformer/config_decoder.h"
#include "shardformer/config_family.h"
#include "shardformer/config_reader.h"

namespace colossus {
namespace {

void Read(ConfigReader& in, ModelConfig& config) {
  ReadDecoder(in,
              {.vocabulary = 32000,
               .max_positions = 2048,
               .mlp = 11008,
               .kv_heads = std::nullopt,
               .bos_id = 1,
               .eos_id = 2},
              config);
  config.qkv_bias = in.Bool({"attention_bias"}, false);
  config.attention_output_bias = config.qkv_bias;
  config.mlp_bias = in.Bool({"mlp_bias"}, false);
  if (!in.status().ok()) return;
  config.windows.assign(config.layers, 0);
  for (const char* key : {"sliding_window", "layer_types"}) {
    if (!in.Has(key) || in.IsNull(key)) continue;
    config.notes.push_back(
        absl::StrFormat("%s has no effect: llama attends to all positions in every layer", key));
  }
}

absl::Status Write(const ModelConfig& config, nlohmann::json& json) {
  if (config.qkv_bias != config.attention_output_bias) {
    return absl::InvalidArgumentError(
        "llama has biases in all four attention projections or in none");
  }
  for (int64_t window : config.windows) {
    if (window != 0) {
      return absl::InvalidArgumentError("llama has no attention windows; use mistral or qwen2");
    }
  }
  json["attention_bias"] = config.qkv_bias;
  json["mlp_bias"] = config.mlp_bias;
  return WriteDecoder(config, json);
}

}  // namespace

ConfigFamily LlamaConfigFamily() { return {"llama", Read, Write, CountDecoder}; }

}  // namespace colossus
