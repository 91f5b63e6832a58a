// Cases about the forward graph of a whole model: sizes from an explicit head size, which keys a
// windowed layer sees.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shardformer/config.h"
#include "shardformer/model.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/text.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/kernels/reference/interpreter.h"
#include "tests/parity/small_trainer.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;

// ---- G3: head size.

Dims DiskDims(const ModelConfig& config, const std::string& name) {
  absl::StatusOr<std::vector<StateInfo>> parameters = ModelParameters(config);
  CHECK_OK(parameters.status());
  for (const StateInfo& info : *parameters) {
    if (info.name == name) return info.disk_dims;
  }
  return {};
}

std::vector<const Node*> NodesOf(const Graph& graph, absl::string_view op) {
  std::vector<const Node*> nodes;
  for (const Node& node : graph.nodes()) {
    if (node.op->name() == op) nodes.push_back(&node);
  }
  return nodes;
}

TEST(FieldCases, G3ExplicitHeadSize) {
  const char* sizes = R"({"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
                          "head_dim": 32})";
  for (const ModelConfig& config : {SmallLlama(sizes), SmallMistral(sizes)}) {
    SCOPED_TRACE(config.family);
    const std::string attention = "model.layers.1.self_attn.";
    EXPECT_EQ(DiskDims(config, attention + "q_proj.weight"), (Dims{128, 64}));
    EXPECT_EQ(DiskDims(config, attention + "k_proj.weight"), (Dims{64, 64}));
    EXPECT_EQ(DiskDims(config, attention + "v_proj.weight"), (Dims{64, 64}));
    EXPECT_EQ(DiskDims(config, attention + "o_proj.weight"), (Dims{64, 128}));
    ASSERT_OK_AND_ASSIGN(Graph graph, BuildForward(config, {.rows = 1, .length = 4}));
    for (const Node* node : NodesOf(graph, "attention")) {
      EXPECT_NEAR(node->attributes.Float("scale"), 0.176777, 1e-6);
    }
    for (const Node* node : NodesOf(graph, "rotary")) {
      EXPECT_EQ(graph.value(node->operands[2]).type.dims, (Dims{16}));  // 32 entries in pairs
      EXPECT_EQ(graph.value(node->operands[0]).type.dims[3], 32);
    }
    int64_t elements = 0;
    ASSERT_OK_AND_ASSIGN(std::vector<StateInfo> parameters, ModelParameters(config));
    for (const StateInfo& info : parameters) elements += ElementCount(info.global_dims);
    EXPECT_EQ(ParameterCount(config), elements);
    const int64_t layer = 64 * (128 + 64 + 64) + 128 * 64 + 3 * 64 * 20 + 2 * 64;
    EXPECT_EQ(elements, 2 * layer + 2 * 13 * 64 + 64);
  }
}

TEST(FieldCases, G3AbsentOrNullHeadSize) {
  for (const char* head_dim : {"", R"(, "head_dim": null)"}) {
    const std::string changes = absl::StrCat(R"({"hidden_size": 64)", head_dim, "}");
    ModelConfig config = SmallLlama(changes);
    EXPECT_EQ(config.head_dim, 16);
    EXPECT_EQ(DiskDims(config, "model.layers.0.self_attn.q_proj.weight"), (Dims{64, 64}));
    EXPECT_EQ(DiskDims(config, "model.layers.0.self_attn.k_proj.weight"), (Dims{32, 64}));
  }
}

// ---- G6: window.

constexpr int64_t kLength = 6;

ForwardOptions LogitsOf(DType compute, bool packed = false) {
  ForwardOptions options;
  options.length = kLength;
  options.compute = compute;
  options.loss = false;
  options.logits = true;
  options.packed = packed;
  return options;
}

HostTensors Inputs(const Graph& graph) {
  HostTensors inputs;
  for (const State& state : graph.states()) {
    const HostTensor values = RandomParameter(state.info);
    HostTensor& converted = inputs[state.info.name] = HostTensor(graph.value(state.in).type);
    for (int64_t i = 0; i < values.type().elements(); ++i) converted.Set(i, values.Get(i));
  }
  inputs["input_ids"] = IntRows({{1, 2, 3, 4, 5, 6}});
  inputs["positions"] = IntRows({{0, 1, 2, 3, 0, 1}});
  inputs["segments"] = IntRows({{7, 7, 7, 7, 8, 8}});
  return inputs;
}

absl::StatusOr<std::vector<double>> Logits(const Graph& graph, const HostTensors& inputs,
                                           KernelList kernels = ReferenceKernels()) {
  ASSIGN_OR_RETURN(HostTensors out, Interpret(graph, inputs, kernels));
  return out.at("logits").ToDoubles();
}

// Per position the number of tokens that its logits depend on: 13 logits each.
std::vector<int> TokensSeen(const ModelConfig& config) {
  absl::StatusOr<Graph> graph = BuildForward(config, LogitsOf(DType::kF64));
  CHECK_OK(graph.status());
  const HostTensors inputs = Inputs(*graph);
  absl::StatusOr<std::vector<double>> before = Logits(*graph, inputs);
  CHECK_OK(before.status());
  std::vector<int> seen(kLength, 0);
  for (int64_t token = 0; token < kLength; ++token) {
    HostTensors changed = inputs;
    changed["input_ids"].Set(token, 11);
    absl::StatusOr<std::vector<double>> after = Logits(*graph, changed);
    CHECK_OK(after.status());
    for (int64_t t = 0; t < kLength; ++t) {
      const auto begin = before->begin() + 13 * t;
      seen[t] += !std::equal(begin, begin + 13, after->begin() + 13 * t);
    }
  }
  return seen;
}

TEST(FieldCases, G6WindowOfOneLayer) {
  const std::string one = R"({"num_hidden_layers": 1, )";
  EXPECT_THAT(TokensSeen(SmallMistral(one + R"("sliding_window": 3})")),
              ElementsAre(1, 2, 3, 3, 3, 3));
  // Null, a switch that is off, and a family without windows.
  EXPECT_THAT(TokensSeen(SmallMistral(one + R"("layer_types": ["full_attention"]})")),
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(TokensSeen(SmallQwen2(one + R"("sliding_window": 3, "use_sliding_window": false})")),
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(TokensSeen(SmallLlama(one + R"("sliding_window": 3})")),
              ElementsAre(1, 2, 3, 4, 5, 6));
}

// What two layers of windows reach: twice as far, less the position itself.
TEST(FieldCases, G6WindowsOfTwoLayers) {
  EXPECT_THAT(TokensSeen(SmallMistral(R"({"sliding_window": 2})")), ElementsAre(1, 2, 3, 3, 3, 3));
}

// The model with a window equals the model without one whose attention adds a mask of -infinity,
// layer by layer. The second graph is the first one's text with the window taken out.
absl::StatusOr<Graph> MaskInPlaceOfWindow(const Graph& graph) {
  std::string text = ToText(graph);
  for (size_t at = 0; (at = text.find(" = attention(", at)) != std::string::npos; ++at) {
    const size_t close = text.find(')', at), end = text.find('}', close);
    std::string attributes = text.substr(close + 1, end - close - 1);
    if (attributes.find(", window=3") == std::string::npos) continue;
    attributes = absl::StrReplaceAll(attributes, {{", window=3", ""}});
    const bool with = attributes.find("with=[") != std::string::npos;
    attributes = with ? absl::StrReplaceAll(attributes, {{"\"]", "\", \"bias\"]"}})
                      : attributes + ", with=[\"bias\"]";
    text.replace(close, end - close, ", %mask)" + attributes);
  }
  const size_t feeds = text.find("  feed ");
  text.insert(feeds, absl::StrCat("  feed %mask: f64[4,", kLength, ",", kLength, "]\n"));
  return ParseGraph(text);
}

HostTensor WindowMask(int64_t window) {
  HostTensor mask(Type{DType::kF64, {4, kLength, kLength}});
  for (int64_t i = 0; i < mask.type().elements(); ++i) {
    const int64_t query = i / kLength % kLength, key = i % kLength;
    mask.Set(i, query - key < window ? 0 : -INFINITY);
  }
  return mask;
}

TEST(FieldCases, G6WindowEqualsAMask) {
  const std::vector<ModelConfig> configs = {
      SmallMistral(),
      SmallQwen2(R"({"use_sliding_window": true, "sliding_window": 3,
                     "layer_types": ["full_attention", "sliding_attention"]})"),
      SmallQwen2(R"({"use_sliding_window": true, "sliding_window": 3,
                     "layer_types": ["sliding_attention", "full_attention"]})")};
  std::set<std::vector<double>> different;
  for (const ModelConfig& config : configs) {
    for (bool packed : {false, true}) {
      SCOPED_TRACE(absl::StrCat(config.family, packed ? " packed" : ""));
      ASSERT_OK_AND_ASSIGN(Graph graph, BuildForward(config, LogitsOf(DType::kF64, packed)));
      ASSERT_OK_AND_ASSIGN(Graph masked, MaskInPlaceOfWindow(graph));
      HostTensors inputs = Inputs(graph);
      inputs["mask"] = WindowMask(3);
      ASSERT_OK_AND_ASSIGN(std::vector<double> window, Logits(graph, inputs));
      ASSERT_OK_AND_ASSIGN(std::vector<double> mask, Logits(masked, inputs));
      EXPECT_TRUE(TensorNear(window, mask, {.relative_to_max = 1e-13}));
      different.insert(window);
      ASSERT_OK_AND_ASSIGN(Graph narrow, BuildForward(config, LogitsOf(DType::kF32, packed)));
      ASSERT_OK_AND_ASSIGN(std::vector<double> fast,
                           Logits(narrow, Inputs(narrow), CpuKernels()));
      EXPECT_TRUE(TensorNear(fast, mask, {.relative_to_max = 1e-5}));
    }
  }
  EXPECT_EQ(different.size(), 6u);  // the list of layers and the borders matter
}

}  // namespace
}  // namespace colossus
