#include "shardformer/config_common.h"

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "shardformer/activation.h"

namespace colossus {

void ReadTokens(ConfigReader& in, std::optional<int64_t> bos_if_absent,
                std::optional<int64_t> eos_if_absent, ModelConfig& config) {
  const auto known = [](std::optional<int64_t> id) { return id == -1 ? std::nullopt : id; };
  const ConfigReader::IntRange range = {-1, ConfigReader::kMaxToken};
  config.bos_id = known(in.IntOrNull({"bos_token_id"}, bos_if_absent, range));
  config.pad_id = known(in.IntOrNull({"pad_token_id"}, std::nullopt, range));
  std::vector<int64_t> eos;
  if (eos_if_absent.has_value()) eos.push_back(*eos_if_absent);
  config.eos_ids = in.IntOrInts({"eos_token_id"}, eos, range);
  std::erase(config.eos_ids, -1);
}

void WriteTokens(const ModelConfig& config, nlohmann::json& json) {
  const auto id = [](std::optional<int64_t> value) {
    return value.has_value() ? nlohmann::json(*value) : nlohmann::json();
  };
  json["bos_token_id"] = id(config.bos_id);
  json["pad_token_id"] = id(config.pad_id);
  if (config.eos_ids.size() > 1) {
    json["eos_token_id"] = config.eos_ids;
  } else {
    json["eos_token_id"] =
        config.eos_ids.empty() ? nlohmann::json() : nlohmann::json(config.eos_ids[0]);
  }
}

void ReadTie(ConfigReader& in, bool if_absent, ModelConfig& config) {
  config.tie_word_embeddings = in.Bool({"tie_word_embeddings"}, if_absent);
  config.tie_was_read = in.Has("tie_word_embeddings");
}

void ReadActivation(ConfigReader& in, const char* key, const char* if_absent, ModelConfig& config) {
  const absl::StatusOr<Activation> activation = ParseActivation(in.String({key}, if_absent));
  if (activation.ok()) {
    config.activation = *activation;
  } else {
    in.Adopt(key, activation.status());
  }
}

void ReadHeadDim(ConfigReader& in, bool may_be_given, ModelConfig& config) {
  std::optional<int64_t> given;
  if (may_be_given) {
    given = in.IntOrNull({"head_dim"}, std::nullopt, {1, ConfigReader::kMaxCount});
  }
  if (!in.status().ok()) return;
  if (!given.has_value() && config.hidden % config.heads != 0) {
    in.FailWith(absl::StrFormat(
        "the hidden size %d is not divisible by %d attention heads%s", config.hidden, config.heads,
        may_be_given ? "; change one of them or give head_dim" : "; change one of them"));
    return;
  }
  config.head_dim = given.value_or(config.hidden / config.heads);
  if (config.heads % config.kv_heads != 0) {
    in.FailWith(absl::StrFormat(
        "num_attention_heads %d is not divisible by num_key_value_heads %d%s", config.heads,
        config.kv_heads,
        in.Has("num_key_value_heads") ? "; each key/value head serves the same number of heads"
                                      : " (the family's default: the key is absent); give it"));
  }
}

void ReadWindows(ConfigReader& in, WindowDefaults defaults, ModelConfig& config) {
  const ConfigReader::IntRange range = {0, ConfigReader::kMaxPositions};
  const bool used = in.Bool({"use_sliding_window"}, defaults.used);
  const int64_t given = in.IntOrNull({"sliding_window"}, defaults.window, range).value_or(0);
  const int64_t first = in.Int({"max_window_layers"}, defaults.first_layer, range);
  const std::vector<std::string> types = in.Strings({"layer_types"});
  if (!in.status().ok()) return;
  const int64_t window = used ? given : 0;
  config.windows.assign(config.layers, 0);
  if (types.empty()) {
    for (int64_t i = first; i < config.layers; ++i) config.windows[i] = window;
    return;
  }
  if (static_cast<int64_t>(types.size()) != config.layers) {
    in.Fail("layer_types", absl::StrFormat("has %d entries for %d layers; give one per layer",
                                           types.size(), config.layers));
    return;
  }
  for (int64_t i = 0; i < config.layers; ++i) {
    if (types[i] == "sliding_attention") {
      config.windows[i] = window;
    } else if (types[i] != "full_attention") {
      in.Fail("layer_types", absl::StrFormat("has \"%s\" for layer %d; supported: "
                                             "full_attention, sliding_attention",
                                             types[i], i));
      return;
    }
  }
}

}  // namespace colossus
