#include "shardformer/config.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "shardformer/activation.h"
#include "shardformer/rope.h"
#include "tensor/io/json.h"

namespace colossus {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<ModelConfig> Read(const std::string& text) {
  absl::StatusOr<nlohmann::json> json = ParseJson(text, "config.json");
  if (!json.ok()) return json.status();
  return ReadModelConfig(*json, "config.json");
}

// A small config of a family, with `more` ("\"key\": value, ...") added to it or put in the place
// of keys it has.
std::string Small(const std::string& family, const std::string& more = "") {
  nlohmann::json json = {{"model_type", family}, {"vocab_size", 99}};
  if (family == "gpt2") {
    json.update({{"n_embd", 32}, {"n_head", 4}, {"n_layer", 2}, {"n_positions", 40}});
  } else {
    json.update({{"hidden_size", 32},
                 {"intermediate_size", 77},
                 {"max_position_embeddings", 64},
                 {"num_attention_heads", 4},
                 {"num_hidden_layers", 2},
                 {"num_key_value_heads", 2}});
  }
  json.update(nlohmann::json::parse("{" + more + "}"));
  return json.dump();
}

TEST(Config, ReadsGpt2) {
  ASSERT_OK_AND_ASSIGN(ModelConfig config,
                       Read(Small("gpt2", R"("architectures": ["GPT2LMHeadModel"], "n_inner": null,
           "eos_token_id": 0, "attn_pdrop": 0.25, "torch_dtype": "float16")")));
  EXPECT_EQ(config.family, "gpt2");
  EXPECT_EQ(config.architecture, "GPT2LMHeadModel");
  EXPECT_EQ(config.vocabulary, 99);
  EXPECT_EQ(config.max_positions, 40);
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.hidden, 32);
  EXPECT_EQ(config.heads, 4);
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.mlp, 128);
  EXPECT_EQ(config.activation, Activation::kGeluTanh);
  EXPECT_EQ(config.norm_epsilon, 1e-5);
  EXPECT_TRUE(config.qkv_bias && config.attention_output_bias && config.mlp_bias);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_FALSE(config.tie_was_read);
  EXPECT_FALSE(config.rope.has_value());
  EXPECT_THAT(config.windows, ElementsAre(0, 0));
  EXPECT_EQ(config.attention_dropout, 0.25);
  EXPECT_EQ(config.residual_dropout, 0.1);
  EXPECT_EQ(config.bos_id, 50256);
  EXPECT_THAT(config.eos_ids, ElementsAre(0));
  EXPECT_EQ(config.pad_id, std::nullopt);
  EXPECT_EQ(config.stored_dtype, DType::kF16);
  EXPECT_TRUE(config.raw["n_inner"].is_null());
}

TEST(Config, Gpt2TakesTheCommonNamesOfItsKeys) {
  ASSERT_OK_AND_ASSIGN(ModelConfig config,
                       Read(R"({"model_type": "gpt2", "hidden_size": 64, "num_attention_heads": 2,
                                "num_hidden_layers": 3, "max_position_embeddings": 16})"));
  EXPECT_EQ(config.hidden, 64);
  EXPECT_EQ(config.layers, 3);
  EXPECT_EQ(config.max_positions, 16);
  EXPECT_THAT(Read(Small("gpt2", R"("hidden_size": 64)")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("mean the same but differ")));
  EXPECT_OK(Read(Small("gpt2", R"("hidden_size": 32)")));
}

TEST(Config, Gpt2ScalesScores) {
  ASSERT_OK_AND_ASSIGN(ModelConfig plain, Read(Small("gpt2")));
  EXPECT_DOUBLE_EQ(plain.AttentionScale(1), 1 / std::sqrt(8.0));
  ASSERT_OK_AND_ASSIGN(ModelConfig by_layer,
                       Read(Small("gpt2", R"("scale_attn_by_inverse_layer_idx": true,
                                             "scale_attn_weights": false)")));
  EXPECT_DOUBLE_EQ(by_layer.AttentionScale(0), 1);
  EXPECT_DOUBLE_EQ(by_layer.AttentionScale(1), 0.5);
}

TEST(Config, BiasesFollowTheFamily) {
  ASSERT_OK_AND_ASSIGN(ModelConfig llama, Read(Small("llama")));
  EXPECT_FALSE(llama.qkv_bias || llama.attention_output_bias || llama.mlp_bias);
  ASSERT_OK_AND_ASSIGN(ModelConfig biased,
                       Read(Small("llama", R"("attention_bias": true, "mlp_bias": true)")));
  EXPECT_TRUE(biased.qkv_bias && biased.attention_output_bias && biased.mlp_bias);
  ASSERT_OK_AND_ASSIGN(ModelConfig qwen2, Read(Small("qwen2")));
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.attention_output_bias || qwen2.mlp_bias);
}

TEST(Config, C4_TieFlagOrTheFamilysDefault) {
  for (const char* family : {"gpt2", "llama", "mistral", "qwen2"}) {
    SCOPED_TRACE(family);
    ASSERT_OK_AND_ASSIGN(ModelConfig absent, Read(Small(family)));
    EXPECT_EQ(absent.tie_word_embeddings, absl::string_view(family) == "gpt2");
    EXPECT_FALSE(absent.tie_was_read);
    for (bool tie : {false, true}) {
      ASSERT_OK_AND_ASSIGN(
          ModelConfig given,
          Read(Small(family, absl::StrCat("\"tie_word_embeddings\": ", tie ? "true" : "false"))));
      EXPECT_EQ(given.tie_word_embeddings, tie);
      EXPECT_TRUE(given.tie_was_read);
    }
  }
}

TEST(Config, G1_RopeTypesInBothSpellingsAndPlaces) {
  const std::string linear = R"("factor": 4)";
  const std::string llama3 = R"("factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
                                "original_max_position_embeddings": 64)";
  for (const char* place : {"rope_scaling", "rope_parameters"}) {
    for (const char* spelling : {"type", "rope_type"}) {
      SCOPED_TRACE(absl::StrCat(place, " ", spelling));
      const auto text = [&](const char* type, const std::string& keys) {
        return Small("llama", absl::StrCat("\"", place, "\": {\"", spelling, "\": \"", type, "\", ",
                                           keys, "}"));
      };
      ASSERT_OK_AND_ASSIGN(ModelConfig a, Read(text("linear", linear)));
      EXPECT_EQ(*a.rope, (RopeParameters{.type = RopeType::kLinear, .factor = 4}));
      ASSERT_OK_AND_ASSIGN(ModelConfig b, Read(text("llama3", llama3)));
      EXPECT_EQ(*b.rope, (RopeParameters{.type = RopeType::kLlama3,
                                         .factor = 8,
                                         .original_max_positions = 64,
                                         .low_freq_factor = 1,
                                         .high_freq_factor = 4}));
      EXPECT_THAT(Read(text("mrope", linear)),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"mrope\"")));
      for (const char* key :
           {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
        nlohmann::json keys = nlohmann::json::parse("{" + llama3 + "}");
        keys.erase(key);
        std::string rest = keys.dump();
        EXPECT_THAT(Read(text("llama3", rest.substr(1, rest.size() - 2))),
                    StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr(absl::StrCat(place, ".", key, " is missing"))));
      }
    }
  }
}

TEST(Config, ReadsYarn) {
  ASSERT_OK_AND_ASSIGN(ModelConfig config, Read(Small("qwen2", R"("rope_theta": 1e6,
      "rope_scaling": {"type": "yarn", "factor": 4.0, "beta_fast": null, "mscale": 0.7,
                       "truncate": false, "original_max_position_embeddings": 16})")));
  EXPECT_EQ(*config.rope, (RopeParameters{.type = RopeType::kYarn,
                                          .theta = 1e6,
                                          .theta_was_read = true,
                                          .factor = 4,
                                          .original_max_positions = 16,
                                          .mscale = 0.7,
                                          .truncate = false}));
  ASSERT_OK_AND_ASSIGN(ModelConfig derived, Read(Small("llama", R"("rope_parameters":
      {"rope_type": "yarn", "factor": null, "original_max_position_embeddings": 16})")));
  EXPECT_EQ(derived.rope->factor, 4);
  ASSERT_OK_AND_ASSIGN(ModelConfig declared, Read(Small("llama", R"("rope_scaling":
      {"rope_type": "yarn", "factor": 2})")));
  EXPECT_EQ(declared.rope->original_max_positions, 64);
}

TEST(Config, G2_WhereThetaIs) {
  struct Case {
    std::string more;
    double theta;
    std::string note;
  };
  for (const Case& c : std::vector<Case>{
           {R"("rope_theta": 1e6)", 1e6, "rope_theta 1e+06 (read from the top level)"},
           {R"("rope_parameters": {"rope_theta": 5e5, "rope_type": "default"})", 5e5,
            "rope_theta 500000 (read from the rope settings)"},
           {R"("rope_theta": 1e6, "rope_parameters": {"rope_theta": 500000})", 5e5,
            "read from the rope settings"},
           {"", 1e4, "rope_theta 10000 (default of llama)"},
           {R"("rope_scaling": null)", 1e4, "default of llama"},
           {R"("rope_parameters": {})", 1e4, "default of llama"},
       }) {
    SCOPED_TRACE(c.more);
    ASSERT_OK_AND_ASSIGN(ModelConfig config, Read(Small("llama", c.more)));
    EXPECT_EQ(config.rope->theta, c.theta);
    EXPECT_EQ(config.rope->theta_was_read, !absl::StrContains(c.note, "default"));
    EXPECT_THAT(config.notes, Contains(HasSubstr(c.note)));
  }
}

TEST(Config, G2_AbsentIsNotNull) {
  const auto kv_heads = [](const char* family, const char* more) {
    nlohmann::json json = nlohmann::json::parse(Small(family, R"("num_attention_heads": 16)"));
    json.erase("num_key_value_heads");
    json.update(nlohmann::json::parse(more));
    return ReadModelConfig(json, "config.json").value().kv_heads;
  };
  EXPECT_EQ(kv_heads("mistral", "{}"), 8);
  EXPECT_EQ(kv_heads("mistral", R"({"num_key_value_heads": null})"), 16);
  EXPECT_EQ(kv_heads("llama", "{}"), 16);
  EXPECT_EQ(kv_heads("llama", R"({"num_key_value_heads": null})"), 16);
  const auto window = [](const char* family, const char* more) {
    return Read(Small(family, more)).value().windows[0];
  };
  EXPECT_EQ(window("mistral", ""), 4096);
  EXPECT_EQ(window("mistral", R"("sliding_window": null)"), 0);
  EXPECT_EQ(window("llama", ""), 0);
  ASSERT_OK_AND_ASSIGN(ModelConfig absent, Read(Small("llama")));
  EXPECT_EQ(absent.bos_id, 1);
  EXPECT_THAT(absent.eos_ids, ElementsAre(2));
  ASSERT_OK_AND_ASSIGN(ModelConfig null,
                       Read(Small("llama", R"("bos_token_id": null, "eos_token_id": null)")));
  EXPECT_EQ(null.bos_id, std::nullopt);
  EXPECT_TRUE(null.eos_ids.empty());
  ASSERT_OK_AND_ASSIGN(ModelConfig several, Read(Small("llama", R"("eos_token_id": [5, 7])")));
  EXPECT_THAT(several.eos_ids, ElementsAre(5, 7));
}

TEST(Config, G3_ExplicitHeadSize) {
  const std::string sizes = R"("hidden_size": 64, "num_attention_heads": 4)";
  for (const char* family : {"llama", "mistral", "qwen2"}) {
    SCOPED_TRACE(family);
    ASSERT_OK_AND_ASSIGN(ModelConfig config, Read(Small(family, sizes + R"(, "head_dim": 32)")));
    EXPECT_EQ(config.head_dim, 32);
    EXPECT_NEAR(config.AttentionScale(0), 0.176777, 1e-6);
    for (const char* none : {"", ", \"head_dim\": null"}) {
      ASSERT_OK_AND_ASSIGN(ModelConfig derived, Read(Small(family, sizes + none)));
      EXPECT_EQ(derived.head_dim, 16);
    }
  }
  // q [128, 64], k and v [64, 64], o [64, 128].
  ASSERT_OK_AND_ASSIGN(ModelConfig wide, Read(Small("llama", sizes + R"(, "head_dim": 32)")));
  ASSERT_OK_AND_ASSIGN(ModelConfig narrow, Read(Small("llama", sizes)));
  const int64_t attention = 2 * 64 * 128 + 2 * 64 * 64;
  const int64_t narrow_attention = 2 * 64 * 64 + 2 * 64 * 32;
  EXPECT_EQ(ParameterCount(wide) - ParameterCount(narrow), 2 * (attention - narrow_attention));
}

TEST(Config, G5_ActivationNames) {
  struct Case {
    const char* name;
    Activation activation;
  };
  for (const Case& c : std::vector<Case>{{"gelu", Activation::kGelu},
                                         {"gelu_new", Activation::kGeluTanh},
                                         {"gelu_pytorch_tanh", Activation::kGeluTanh},
                                         {"gelu_fast", Activation::kGeluTanh},
                                         {"quick_gelu", Activation::kQuickGelu},
                                         {"silu", Activation::kSilu},
                                         {"swish", Activation::kSilu},
                                         {"relu", Activation::kRelu}}) {
    SCOPED_TRACE(c.name);
    for (const auto& [family, key] :
         {std::pair("gpt2", "activation_function"), std::pair("llama", "hidden_act")}) {
      ASSERT_OK_AND_ASSIGN(ModelConfig config,
                           Read(Small(family, absl::StrCat("\"", key, "\": \"", c.name, "\""))));
      EXPECT_EQ(config.activation, c.activation);
    }
    EXPECT_THAT(ParseActivation(Name(c.activation)), IsOkAndHolds(c.activation));
  }
  EXPECT_THAT(Read(Small("llama", R"("hidden_act": "sillu")")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("config.json: hidden_act: the activation \"sillu\""),
                             HasSubstr("did you mean silu?"))));
}

TEST(Config, G6_WindowsLayerByLayer) {
  struct Case {
    const char* family;
    std::string more;
    std::vector<int64_t> windows;
  };
  for (const Case& c : std::vector<Case>{
           {"mistral", R"("sliding_window": 3)", {3, 3}},
           {"mistral", R"("sliding_window": null)", {0, 0}},
           {"mistral", R"("sliding_window": 0)", {0, 0}},
           {"mistral", R"("sliding_window": 3, "use_sliding_window": false)", {0, 0}},
           {"qwen2", R"("sliding_window": 3)", {0, 0}},
           {"qwen2", R"("sliding_window": 3, "use_sliding_window": true)", {0, 0}},  // from 28 on
           {"qwen2",
            R"("sliding_window": 3, "use_sliding_window": true, "max_window_layers": 1)",
            {0, 3}},
           {"qwen2",
            R"("sliding_window": 3, "use_sliding_window": true, "max_window_layers": 0)",
            {3, 3}},
           {"qwen2", R"("use_sliding_window": true, "max_window_layers": 0)", {4096, 4096}},
           {"qwen2",
            R"("sliding_window": 3, "use_sliding_window": true, "max_window_layers": 0,
             "layer_types": ["sliding_attention", "full_attention"])",
            {3, 0}},
           {"qwen2",
            R"("sliding_window": 3, "use_sliding_window": false,
             "layer_types": ["sliding_attention", "full_attention"])",
            {0, 0}},
           {"mistral",
            R"("sliding_window": 3,
             "layer_types": ["full_attention", "sliding_attention"])",
            {0, 3}},
           {"llama", R"("sliding_window": 3)", {0, 0}},
       }) {
    SCOPED_TRACE(absl::StrCat(c.family, " ", c.more));
    ASSERT_OK_AND_ASSIGN(ModelConfig config, Read(Small(c.family, c.more)));
    EXPECT_EQ(config.windows, c.windows);
  }
  ASSERT_OK_AND_ASSIGN(ModelConfig llama, Read(Small("llama", R"("sliding_window": 3)")));
  EXPECT_THAT(llama.notes, Contains(HasSubstr("sliding_window has no effect")));
}

TEST(Config, RefusesNamingKeyAndRemedy) {
  struct Case {
    std::string text;
    std::string message;
  };
  for (const Case& c : std::vector<Case>{
           {"[]", "the file holds a list, not an object"},
           {"{}", "model_type is missing"},
           {R"({"model_type": 7})", "model_type is 7 (a whole number); it must be a string"},
           {Small("llama", R"("hidden_size": 33)"),
            "33 is not divisible by 4 attention heads; "
            "change one of them or give head_dim"},
           {Small("gpt2", R"("n_embd": 33)"), "33 is not divisible by 4 attention heads"},
           {Small("llama", R"("num_key_value_heads": 3)"),
            "num_attention_heads 4 is not divisible by num_key_value_heads 3"},
           {Small("llama", R"("num_hidden_layers": -2)"),
            "num_hidden_layers is -2; it must be from 1"},
           {Small("llama", R"("num_hidden_layers": 0)"), "num_hidden_layers is 0"},
           {Small("llama", R"("vocab_size": 18446744073709551615)"), "vocab_size is 1844674407"},
           {Small("llama", R"("vocab_size": 1e30)"), "vocab_size is 1e+30"},
           {Small("llama", R"("hidden_size": 16777216, "num_hidden_layers": 65536)"),
            "the limit is 1e+15"},
           {Small("llama", R"("hidden_size": "32")"), "hidden_size is \"32\" (a string); it must"},
           {Small("llama", R"("hidden_size": null)"), "hidden_size is null (null); it must"},
           {Small("llama", R"("tie_word_embeddings": "yes")"), "must be true or false"},
           {Small("llama", R"("rms_norm_eps": -1)"), "rms_norm_eps is -1"},
           {Small("gpt2", R"("attn_pdrop": 1.0)"), "attn_pdrop is 1.0"},
           {Small("llama", R"("head_dim": 7)"), "must be even"},
           {Small("llama", R"("rope_scaling": 4)"), "rope_scaling is 4 (a whole number)"},
           {Small("llama", R"("rope_scaling": {"factor": 4})"),
            "rope_scaling.rope_type is missing"},
           {Small("llama", R"("rope_scaling": {"type": "linear", "factor": "4"})"),
            "rope_scaling.factor is \"4\""},
           {Small("llama", R"("rope_scaling": {"type": "linear", "rope_type": "dynamic"})"),
            "gives rope_type as \"linear\", but also as \"dynamic\"; keep one"},
           {Small("llama", R"("rope_scaling": {"type": "linear", "factor": 2},
                              "rope_parameters": {"rope_type": "linear", "factor": 4})"),
            "keep one"},
           {Small("llama", R"("rope_parameters": {"full_attention": {"rope_type": "default"}})"),
            "differs by layer type"},
           {Small("llama", R"("rope_theta": null)"), "rope_theta is null"},
           {Small("llama", R"("rope_theta": 0)"), "rope_theta is 0"},
           {Small("llama", R"("partial_rotary_factor": 0.5)"), "turns whole heads"},
           {Small("qwen2", R"("layer_types": ["full_attention"])"), "has 1 entries for 2 layers"},
           {Small("qwen2", R"("layer_types": ["full_attention", "linear_attention"])"),
            "\"linear_attention\" for layer 1"},
           {Small("mistral", R"("sliding_window": -1)"), "sliding_window is -1"},
           {Small("gpt2", R"("add_cross_attention": true)"), "add_cross_attention true is not"},
           {Small("llama", R"("quantization_config": {"quant_method": "gptq"})"),
            "quantization_config is not supported"},
           {Small("gpt2", R"("pruned_heads": {"0": [1]})"), "pruned_heads is not supported"},
       }) {
    SCOPED_TRACE(c.text);
    EXPECT_THAT(Read(c.text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(::testing::StartsWith("config.json: "), HasSubstr(c.message))));
  }
}

// Every key of a written config with every odd value in its place, alone and inside the rope
// settings: read or refused with the file's name, and what was read holds together.
TEST(Config, OddValuesAreReadOrRefused) {
  const std::vector<nlohmann::json> odd = nlohmann::json::parse(
      R"([null, true, -1, 0, 1, 3, 1e300, 0.5, 9223372036854775807, 18446744073709551615, "", "x",
          [], [null], ["sliding_attention"], {}, {"a": {}}, {"rope_type": "yarn"}])");
  const std::string yarn = R"("rope_scaling": {"type": "yarn", "factor": 2, "mscale": 0.5,
      "mscale_all_dim": 1, "truncate": false, "original_max_position_embeddings": 16})";
  const std::string llama3 = R"("rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor":
      1, "high_freq_factor": 4, "original_max_position_embeddings": 64})";
  const auto check = [](const nlohmann::json& json) {
    const absl::StatusOr<ModelConfig> config = ReadModelConfig(json, "config.json");
    if (!config.ok()) {
      EXPECT_THAT(std::string(config.status().message()), ::testing::StartsWith("config.json: "))
          << json;
      return;
    }
    EXPECT_EQ(static_cast<int64_t>(config->windows.size()), config->layers) << json;
    EXPECT_EQ(config->heads % config->kv_heads, 0) << json;
    EXPECT_GT(ParameterCount(*config), 0) << json;
  };
  for (const std::string& text : {Small("gpt2"), Small("llama", llama3), Small("mistral", yarn),
                                  Small("qwen2", R"("use_sliding_window": true)")}) {
    const nlohmann::json written = ToHuggingFaceConfig(Read(text).value()).value();
    for (const nlohmann::json& value : odd) {
      for (const auto& [key, old] : written.items()) {
        nlohmann::json changed = written;
        changed[key] = value;
        check(changed);
        if (!old.is_object()) continue;
        for (const auto& [inner, unused] : old.items()) {
          changed = written;
          changed[key][inner] = value;
          check(changed);
        }
      }
    }
  }
}

TEST(Config, UnknownFamilyNamesTheSupportedAndTheNearest) {
  EXPECT_THAT(Read(R"({"model_type": "mixtral"})"),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("config.json: model_type \"mixtral\" is not supported; supported: "
                                 "gpt2, llama, mistral, qwen2 (did you mean mistral?)")));
}

TEST(Config, WhatIsWrittenReadsBackTheSame) {
  for (const std::string& text : std::vector<std::string>{
           Small("gpt2", R"("n_inner": 50, "scale_attn_by_inverse_layer_idx": true,
                            "tie_word_embeddings": false, "torch_dtype": "bfloat16")"),
           Small("llama", R"("attention_bias": true, "head_dim": 10, "eos_token_id": [3, 4],
                             "rope_theta": 5e5, "rope_scaling": {"type": "llama3", "factor": 8,
                             "low_freq_factor": 1, "high_freq_factor": 4,
                             "original_max_position_embeddings": 64})"),
           Small("mistral", R"("sliding_window": 3, "rope_scaling": {"type": "yarn", "factor": 2,
                               "mscale": 0.5, "mscale_all_dim": 1, "truncate": false})"),
           Small("mistral", R"("sliding_window": null)"),
           Small("qwen2", R"("sliding_window": 3, "use_sliding_window": true,
                             "max_window_layers": 1, "bos_token_id": 4, "dtype": "float32")"),
       }) {
    SCOPED_TRACE(text);
    ASSERT_OK_AND_ASSIGN(ModelConfig config, Read(text));
    ASSERT_OK_AND_ASSIGN(nlohmann::json written, ToHuggingFaceConfig(config));
    ASSERT_OK_AND_ASSIGN(ModelConfig again, ReadModelConfig(written, "written"));
    EXPECT_EQ(again.windows, config.windows);
    EXPECT_EQ(again.eos_ids, config.eos_ids);
    EXPECT_EQ(again.head_dim, config.head_dim);
    EXPECT_EQ(again.mlp, config.mlp);
    EXPECT_EQ(again.stored_dtype, config.stored_dtype);
    EXPECT_EQ(again.scale_attention_by_layer, config.scale_attention_by_layer);
    if (config.rope.has_value()) config.rope->theta_was_read = true;
    EXPECT_EQ(again.rope, config.rope);
    EXPECT_EQ(ParameterCount(again), ParameterCount(config));
    // Everything that is written depends on the fields, so equal texts mean equal fields.
    EXPECT_EQ(ToHuggingFaceConfig(again).value(), written);
  }
}

TEST(Config, WritingRefusesWhatTheFamilyCannotSay) {
  ASSERT_OK_AND_ASSIGN(ModelConfig config, Read(Small("llama")));
  config.windows = {0, 5};
  EXPECT_THAT(ToHuggingFaceConfig(config),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no attention windows")));
  config.family = "bloom";
  EXPECT_FALSE(ToHuggingFaceConfig(config).ok());
}

}  // namespace
}  // namespace colossus
