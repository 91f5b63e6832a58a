#include "shardformer/model.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "shardformer/model_builder.h"

namespace colossus {
namespace {

constexpr struct {
  absl::string_view family;
  absl::Status (*build)(ModelBuilder&);
} kFamilies[] = {
    {"gpt2", BuildGpt2},
    {"llama", BuildLlama},
    {"mistral", BuildLlama},
    {"qwen2", BuildLlama},
};

}  // namespace

absl::StatusOr<Graph> BuildForward(const ModelConfig& config, const ForwardOptions& options) {
  for (const auto& row : kFamilies) {
    if (row.family != config.family) continue;
    ModelBuilder model(config, options);
    RETURN_IF_ERROR(row.build(model));
    return std::move(model).Finish();
  }
  return absl::UnimplementedError(
      absl::StrCat("model family '", config.family, "' has no graph"));
}

absl::StatusOr<std::vector<StateInfo>> ModelParameters(const ModelConfig& config) {
  ASSIGN_OR_RETURN(Graph graph, BuildForward(config, {.rows = 1, .length = 1}));
  std::vector<StateInfo> parameters;
  for (const State& state : graph.states()) parameters.push_back(state.info);
  return parameters;
}

std::vector<std::string> ModelBlocks(const ModelConfig& config) {
  std::vector<std::string> blocks = {"embed"};
  for (int64_t layer = 0; layer < config.layers; ++layer) blocks.push_back(LayerBlock(layer));
  blocks.push_back("head");
  return blocks;
}

std::string LayerBlock(int64_t layer) { return absl::StrCat("h.", layer); }

}  // namespace colossus
