// config.json: what is accepted can be written again, and a small model of it can be built.
#include "base/check.h"
#include "shardformer/config.h"
#include "shardformer/model.h"
#include "tensor/graph/verifier.h"
#include "tensor/io/json.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/seed_files.h"

namespace colossus {
namespace {

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const char* model : {"gpt2_inner", "gpt2_untied", "llama_llama3_bias", "llama_yarn",
                            "llama_tied", "mistral_window", "qwen2_layers", "llama_shards"}) {
    for (const char* file : {"config.json", "alt/config_v4.json", "alt/config_min.json"}) {
      seeds.push_back(ReadSeedFile("tests/golden", model, file));
    }
  }
  return seeds;
}

// Building a graph costs time by the layer; its sizes cost none.
constexpr int64_t kMostLayers = 6;

void Run(absl::string_view input) {
  absl::StatusOr<nlohmann::json> json = ParseJson(input, "config.json");
  if (!json.ok()) return;
  absl::StatusOr<ModelConfig> config = ReadModelConfig(*json, "config.json");
  if (!config.ok()) return;
  absl::StatusOr<nlohmann::json> written = ToHuggingFaceConfig(*config);
  if (!written.ok()) return;  // more than the family's config can say, as other windows per layer
  absl::StatusOr<ModelConfig> again = ReadModelConfig(*written, "written");
  CHECK_OK(again) << written->dump();
  CHECK_EQ(again->hidden, config->hidden);
  CHECK_EQ(again->windows.size(), config->windows.size());
  if (config->layers > kMostLayers) return;
  ForwardOptions options;
  options.length = 2;
  options.gradients = true;
  absl::StatusOr<Graph> graph = BuildForward(*config, options);
  if (graph.ok()) CHECK_OK(Verify(*graph));
}

}  // namespace

const FuzzTarget& Target() {
  static const FuzzTarget target = {
      .name = "config_json",
      .seeds = Seeds,
      .run = Run,
      .words = {"\"model_type\"",
                "\"gpt2\"",
                "\"llama\"",
                "\"mistral\"",
                "\"qwen2\"",
                "\"rope_scaling\"",
                "\"rope_parameters\"",
                "\"rope_type\"",
                "\"type\"",
                "\"yarn\"",
                "\"llama3\"",
                "\"linear\"",
                "\"dynamic\"",
                "\"factor\"",
                "\"layer_types\"",
                "\"sliding_window\"",
                "\"full_attention\"",
                "\"head_dim\"",
                "\"eos_token_id\"",
                "[0, 1, 2]",
                "\"num_key_value_heads\"",
                "\"n_inner\"",
                "\"silu\""},
  };
  return target;
}

}  // namespace colossus
