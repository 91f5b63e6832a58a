#include "shardformer/presets.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "shardformer/config.h"

namespace colossus {
namespace {

struct Gpt2Row {
  const char* name;
  int64_t layers, heads, hidden, vocabulary, positions;
};

constexpr Gpt2Row kGpt2[] = {
    {"gpt2-tiny", 4, 4, 128, 257, 256},       {"gpt2-30m", 6, 6, 384, 50257, 1024},
    {"gpt2-124m", 12, 12, 768, 50257, 1024},  {"gpt2-355m", 24, 16, 1024, 50257, 1024},
    {"gpt2-1.5b", 48, 25, 1600, 50257, 1024}, {"gpt-18b", 40, 48, 6144, 50257, 1024},
};

struct LlamaRow {
  const char* name;
  int64_t layers, heads, kv_heads, hidden, mlp, vocabulary, positions;
  bool tied;
};

constexpr LlamaRow kLlama[] = {
    {"llama-tiny", 4, 4, 2, 128, 352, 257, 256, true},
    {"llama-100m", 12, 12, 4, 768, 2048, 32000, 2048, true},
};

nlohmann::json ToJson(const Gpt2Row& row) {
  return {{"model_type", "gpt2"},
          {"architectures", {"GPT2LMHeadModel"}},
          {"n_layer", row.layers},
          {"n_head", row.heads},
          {"n_embd", row.hidden},
          {"vocab_size", row.vocabulary},
          {"n_positions", row.positions},
          {"attn_pdrop", 0.0},
          {"embd_pdrop", 0.0},
          {"resid_pdrop", 0.0},
          {"bos_token_id", row.vocabulary - 1},
          {"eos_token_id", row.vocabulary - 1}};
}

nlohmann::json ToJson(const LlamaRow& row) {
  const bool bytes = row.vocabulary == 257;
  return {{"model_type", "llama"},
          {"architectures", {"LlamaForCausalLM"}},
          {"num_hidden_layers", row.layers},
          {"num_attention_heads", row.heads},
          {"num_key_value_heads", row.kv_heads},
          {"hidden_size", row.hidden},
          {"intermediate_size", row.mlp},
          {"vocab_size", row.vocabulary},
          {"max_position_embeddings", row.positions},
          {"rms_norm_eps", 1e-5},
          {"tie_word_embeddings", row.tied},
          {"bos_token_id", bytes ? 256 : 1},
          {"eos_token_id", bytes ? 256 : 2}};
}

absl::StatusOr<ModelConfig> Read(const nlohmann::json& json, absl::string_view name) {
  ASSIGN_OR_RETURN(ModelConfig config, ReadModelConfig(json, absl::StrCat("preset ", name)));
  ASSIGN_OR_RETURN(config.raw, ToHuggingFaceConfig(config));
  return config;
}

}  // namespace

absl::StatusOr<ModelConfig> PresetConfig(absl::string_view name) {
  for (const Gpt2Row& row : kGpt2) {
    if (name == row.name) return Read(ToJson(row), name);
  }
  for (const LlamaRow& row : kLlama) {
    if (name == row.name) return Read(ToJson(row), name);
  }
  return absl::NotFoundError(absl::StrFormat("there is no preset \"%s\"; presets: %s%s", name,
                                             absl::StrJoin(PresetNames(), ", "),
                                             NearestNameHint(name, PresetNames())));
}

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const Gpt2Row& row : kGpt2) names.push_back(row.name);
  for (const LlamaRow& row : kLlama) names.push_back(row.name);
  return names;
}

}  // namespace colossus
