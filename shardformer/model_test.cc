#include "shardformer/model.h"

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shardformer/presets.h"
#include "tensor/graph/text.h"

namespace colossus {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ModelConfig Preset(const char* name) {
  absl::StatusOr<ModelConfig> config = PresetConfig(name);
  EXPECT_OK(config);
  return *std::move(config);
}

std::vector<std::string> FeedNames(const Graph& graph) {
  std::vector<std::string> names;
  for (ValueId feed : graph.feeds()) names.push_back(graph.value(feed).name);
  return names;
}

std::vector<std::string> OutputNames(const Graph& graph) {
  std::vector<std::string> names;
  for (const Output& output : graph.outputs()) names.push_back(output.name);
  return names;
}

// Protects: options that do not go together are refused with their reason.
TEST(ModelTest, RefusesOptions) {
  const struct {
    const char* message;
    std::function<void(ForwardOptions&)> change;
  } rows[] = {
      {"at least one row", [](ForwardOptions& o) { o.rows = 0; }},
      {"at least one row", [](ForwardOptions& o) { o.length = -1; }},
      {"must be a float type", [](ForwardOptions& o) { o.compute = DType::kI32; }},
      {"gradients need the loss",
       [](ForwardOptions& o) { o.loss = false, o.logits = o.gradients = true; }},
      {"neither loss nor logits", [](ForwardOptions& o) { o.loss = false; }},
      {"does not go with gradients",
       [](ForwardOptions& o) { o.cache_capacity = 16, o.gradients = true; }},
      {"does not go with gradients or packed",
       [](ForwardOptions& o) { o.cache_capacity = 16, o.packed = true; }},
      {"a cache of 4 tokens cannot take 8", [](ForwardOptions& o) { o.cache_capacity = 4; }},
      {"257 tokens is beyond the model's 256", [](ForwardOptions& o) { o.length = 257; }},
      {"257 tokens is beyond the model's 256", [](ForwardOptions& o) { o.cache_capacity = 257; }},
  };
  for (const auto& row : rows) {
    ForwardOptions options{.rows = 2, .length = 8};
    row.change(options);
    EXPECT_THAT(BuildForward(Preset("gpt2-tiny"), options),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(row.message)));
  }
  // Rotary positions go on beyond the declared length.
  EXPECT_OK(BuildForward(Preset("llama-tiny"), {.rows = 1, .length = 300}));
  ModelConfig other = Preset("gpt2-tiny");
  other.family = "mamba";
  EXPECT_THAT(BuildForward(other, {}), StatusIs(absl::StatusCode::kUnimplemented,
                                                HasSubstr("model family 'mamba' has no graph")));
}

// Protects: each option adds its feeds and outputs, and no other.
TEST(ModelTest, FeedsAndOutputs) {
  const struct {
    ForwardOptions options;
    std::vector<std::string> feeds, outputs;
  } rows[] = {
      {{.rows = 2, .length = 8}, {"input_ids", "labels"}, {"loss_sum"}},
      {{.length = 8, .loss = false, .logits = true}, {"input_ids"}, {"logits"}},
      {{.length = 8, .gradients = true, .logits = true},
       {"input_ids", "labels", "loss_seed"},
       {"loss_sum", "logits"}},
      {{.length = 8, .packed = true},
       {"input_ids", "labels", "positions", "segments"},
       {"loss_sum"}},
      {{.length = 8, .dropout = true},
       {"input_ids", "labels", "dropout_key", "first_row"},
       {"loss_sum"}},
      {{.length = 1, .loss = false, .logits = true, .cache_capacity = 8},
       {"input_ids", "positions", "cache_length"},
       {"logits"}},
  };
  for (const char* preset : {"gpt2-tiny", "llama-tiny"}) {
    for (const auto& row : rows) {
      ASSERT_OK_AND_ASSIGN(Graph graph, BuildForward(Preset(preset), row.options));
      EXPECT_EQ(FeedNames(graph), row.feeds) << preset;
      EXPECT_EQ(OutputNames(graph), row.outputs) << preset;
    }
  }
}

// Protects: decoding keeps keys and values of every layer, updated in place.
TEST(ModelTest, DecodingHasCaches) {
  ModelConfig config = Preset("llama-tiny");
  ASSERT_OK_AND_ASSIGN(Graph graph, BuildForward(config, {.rows = 3,
                                                          .length = 1,
                                                          .compute = DType::kBF16,
                                                          .loss = false,
                                                          .logits = true,
                                                          .cache_capacity = 40}));
  std::vector<std::string> caches;
  for (const State& state : graph.states()) {
    if (state.info.role != Role::kCache) continue;
    caches.push_back(state.info.name);
    EXPECT_NE(state.in, state.out);
    EXPECT_EQ(ToString(graph.value(state.in).type), "bf16[3,40,2,32]");
    EXPECT_FALSE(state.info.trainable);
  }
  EXPECT_THAT(caches, ElementsAre("cache/0/k", "cache/0/v", "cache/1/k", "cache/1/v", "cache/2/k",
                                  "cache/2/v", "cache/3/k", "cache/3/v"));
}

// Protects: segments, micro-batches and recomputation cut at blocks that come in running order.
TEST(ModelTest, BlocksInOrder) {
  for (const char* preset : {"gpt2-tiny", "llama-tiny"}) {
    const ModelConfig config = Preset(preset);
    EXPECT_THAT(ModelBlocks(config), ElementsAre("embed", "h.0", "h.1", "h.2", "h.3", "head"));
    ASSERT_OK_AND_ASSIGN(Graph graph, BuildForward(config, {.rows = 2, .length = 8}));
    std::vector<std::string> blocks;
    std::set<std::string> seen;
    for (const Node& node : graph.nodes()) {
      if (!blocks.empty() && blocks.back() == node.block) continue;
      // Tables made when the first layer needs them belong to the front of the model.
      if (node.block == "embed" && seen.contains("embed")) continue;
      if (!seen.insert(node.block).second) continue;
      blocks.push_back(node.block);
    }
    EXPECT_EQ(blocks, ModelBlocks(config)) << preset;
  }
}

// Protects: the residual stream and norms stay wide, products are narrow.
TEST(ModelTest, Precision) {
  const struct {
    DType compute;
    DType residual;
  } rows[] = {{DType::kF32, DType::kF32}, {DType::kBF16, DType::kF32}, {DType::kF16, DType::kF32},
              {DType::kF64, DType::kF64}};
  for (const auto& row : rows) {
    ASSERT_OK_AND_ASSIGN(Graph graph,
                         BuildForward(Preset("gpt2-tiny"), {.rows = 2,
                                                            .length = 8,
                                                            .compute = row.compute,
                                                            .gradients = true,
                                                            .logits = true}));
    for (const State& state : graph.states()) {
      const bool norm = absl::StrContains(state.info.name, ".ln_");
      EXPECT_EQ(graph.value(state.in).type.dtype, norm ? row.residual : row.compute)
          << state.info.name;
    }
    auto type = [&](absl::string_view output) {
      return ToString(graph.value(graph.FindOutput(output)).type);
    };
    EXPECT_EQ(type("loss_sum"), absl::StrCat(Name(row.residual), "[]"));
    EXPECT_EQ(type("logits"), absl::StrCat(Name(row.residual), "[2,8,257]"));
  }
}

// Protects: the tables of names agree with the count of the config, for every preset.
TEST(ModelTest, ParametersOfPresets) {
  for (const std::string& name : PresetNames()) {
    const ModelConfig config = Preset(name.c_str());
    ASSERT_OK_AND_ASSIGN(std::vector<StateInfo> parameters, ModelParameters(config));
    int64_t count = 0;
    std::set<std::string> names;
    for (const StateInfo& info : parameters) {
      count += ElementCount(info.global_dims);
      EXPECT_EQ(ElementCount(info.disk_dims), ElementCount(info.global_dims)) << info.name;
      EXPECT_EQ(info.axes.size(), info.global_dims.size()) << info.name;
      EXPECT_EQ(info.decayed, info.disk_dims.size() == 2) << info.name;
      EXPECT_NE(info.init.kind, Initializer::Kind::kNone) << info.name;
      EXPECT_TRUE(info.trainable && info.role == Role::kParameter) << info.name;
      EXPECT_TRUE(names.insert(info.name).second) << info.name;
    }
    EXPECT_EQ(count, ParameterCount(config)) << name;
  }
}

// One line per parameter of block 0 and around it: name and dims on disk.
std::vector<std::string> Table(const ModelConfig& config) {
  absl::StatusOr<std::vector<StateInfo>> parameters = ModelParameters(config);
  EXPECT_OK(parameters);
  std::vector<std::string> lines;
  for (const StateInfo& info : *parameters) {
    bool later = false;
    for (int layer = 1; layer < 4; ++layer) {
      later |= absl::StrContains(info.name, absl::StrCat("h.", layer, ".")) ||
               absl::StrContains(info.name, absl::StrCat("layers.", layer, "."));
    }
    if (!later) lines.push_back(absl::StrCat(info.name, " ", DimsToString(info.disk_dims)));
  }
  return lines;
}

// Protects: names, shapes and order of first use, as the files of the families have them.
TEST(ModelTest, Tables) {
  EXPECT_THAT(Table(Preset("gpt2-tiny")),
              ElementsAre("transformer.wte.weight [257,128]", "transformer.wpe.weight [256,128]",
                          "transformer.h.0.ln_1.weight [128]", "transformer.h.0.ln_1.bias [128]",
                          "transformer.h.0.attn.c_attn.weight [128,384]",
                          "transformer.h.0.attn.c_attn.bias [384]",
                          "transformer.h.0.attn.c_proj.weight [128,128]",
                          "transformer.h.0.attn.c_proj.bias [128]",
                          "transformer.h.0.ln_2.weight [128]", "transformer.h.0.ln_2.bias [128]",
                          "transformer.h.0.mlp.c_fc.weight [128,512]",
                          "transformer.h.0.mlp.c_fc.bias [512]",
                          "transformer.h.0.mlp.c_proj.weight [512,128]",
                          "transformer.h.0.mlp.c_proj.bias [128]", "transformer.ln_f.weight [128]",
                          "transformer.ln_f.bias [128]"));
  ModelConfig llama = Preset("llama-tiny");
  llama.tie_word_embeddings = false;
  llama.qkv_bias = true;
  EXPECT_THAT(Table(llama),
              ElementsAre("model.embed_tokens.weight [257,128]",
                          "model.layers.0.input_layernorm.weight [128]",
                          "model.layers.0.self_attn.q_proj.weight [128,128]",
                          "model.layers.0.self_attn.q_proj.bias [128]",
                          "model.layers.0.self_attn.k_proj.weight [64,128]",
                          "model.layers.0.self_attn.k_proj.bias [64]",
                          "model.layers.0.self_attn.v_proj.weight [64,128]",
                          "model.layers.0.self_attn.v_proj.bias [64]",
                          "model.layers.0.self_attn.o_proj.weight [128,128]",
                          "model.layers.0.post_attention_layernorm.weight [128]",
                          "model.layers.0.mlp.gate_proj.weight [352,128]",
                          "model.layers.0.mlp.up_proj.weight [352,128]",
                          "model.layers.0.mlp.down_proj.weight [128,352]",
                          "model.norm.weight [128]", "lm_head.weight [257,128]"));
}

// Protects: two additions to the residual stream a layer start smaller in GPT-2.
TEST(ModelTest, InitialDeviations) {
  ASSERT_OK_AND_ASSIGN(std::vector<StateInfo> parameters, ModelParameters(Preset("gpt2-tiny")));
  for (const StateInfo& info : parameters) {
    double expected = absl::EndsWith(info.name, "bias") ? 0
                      : absl::StrContains(info.name, "ln_") ? 1
                      : absl::StrContains(info.name, "c_proj") ? 0.02 / std::sqrt(8.0)
                                                               : 0.02;
    EXPECT_EQ(info.init.value, expected) << info.name;
  }
}

// Protects: a site of randomness is one place of the model; two places never draw alike.
TEST(ModelTest, DropoutSites) {
  ModelConfig config = Preset("gpt2-tiny");
  config.attention_dropout = config.residual_dropout = config.embedding_dropout = 0.1;
  ASSERT_OK_AND_ASSIGN(Graph graph,
                       BuildForward(config, {.rows = 2, .length = 8, .dropout = true}));
  std::vector<std::string> sites;
  for (const Node& node : graph.nodes()) {
    if (node.attributes.HasType<std::string>("site")) {
      sites.push_back(node.attributes.String("site"));
    }
  }
  EXPECT_EQ(sites.size(), 1u + 3 * 4);
  EXPECT_EQ(std::set<std::string>(sites.begin(), sites.end()).size(), sites.size());
  EXPECT_THAT(sites, Contains("h.3/attention"));
  ASSERT_OK_AND_ASSIGN(Graph without, BuildForward(config, {.rows = 2, .length = 8}));
  EXPECT_THAT(ToText(without), Not(HasSubstr("site")));
}

}  // namespace
}  // namespace colossus
