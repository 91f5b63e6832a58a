// The family "mistral": Llama's blocks without biases, one attention window for all layers.
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
              {.vocabulary = 32000,
               .max_positions = 4096 * 32,
               .mlp = 14336,
               .kv_heads = 8,
               .bos_id = 1,
               .eos_id = 2},
              config);
  if (!in.status().ok()) return;
  ReadWindows(in, {.used = true, .window = 4096, .first_layer = 0}, config);
}

absl::Status Write(const ModelConfig& config, nlohmann::json& json) {
  if (config.qkv_bias || config.attention_output_bias || config.mlp_bias) {
    return absl::InvalidArgumentError("mistral has no biases");
  }
  for (int64_t window : config.windows) {
    if (window != config.windows[0]) {
      return absl::InvalidArgumentError("mistral has the same attention window in every layer");
    }
  }
  const bool none = config.windows.empty() || config.windows[0] == 0;
  json["sliding_window"] = none ? nlohmann::json() : nlohmann::json(config.windows[0]);
  return WriteDecoder(config, json);
}

}  // namespace

ConfigFamily MistralConfigFamily() { return {"mistral", Read, Write, CountDecoder}; }

}  // namespace colossus
