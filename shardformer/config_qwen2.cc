// The family "qwen2": Llama's blocks with biases on query, key and value, windows layer by layer.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
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
              {.vocabulary = 151936,
               .max_positions = 32768,
               .mlp = 22016,
               .kv_heads = 32,
               .bos_id = std::nullopt,
               .eos_id = std::nullopt},
              config);
  config.qkv_bias = true;
  if (!in.status().ok()) return;
  ReadWindows(in, {.used = false, .window = 4096, .first_layer = 28}, config);
}

absl::Status Write(const ModelConfig& config, nlohmann::json& json) {
  if (!config.qkv_bias || config.attention_output_bias || config.mlp_bias) {
    return absl::InvalidArgumentError("qwen2 has biases on query, key and value and no others");
  }
  const auto widest = std::max_element(config.windows.begin(), config.windows.end());
  const int64_t window = widest == config.windows.end() ? 0 : *widest;
  std::vector<std::string> types;
  for (int64_t width : config.windows) {
    if (width != 0 && width != window) {
      return absl::InvalidArgumentError("qwen2 has one attention window or none in each layer");
    }
    types.push_back(width == 0 ? "full_attention" : "sliding_attention");
  }
  json["layer_types"] = types;
  json["use_sliding_window"] = window != 0;
  json["sliding_window"] = window == 0 ? nlohmann::json() : nlohmann::json(window);
  // For readers that do not know layer_types: the layers before the first one with a window.
  const auto first = std::find(types.begin(), types.end(), "sliding_attention");
  json["max_window_layers"] = first - types.begin();
  return WriteDecoder(config, json);
}

}  // namespace

ConfigFamily Qwen2ConfigFamily() { return {"qwen2", Read, Write, CountDecoder}; }

}  // namespace colossus
