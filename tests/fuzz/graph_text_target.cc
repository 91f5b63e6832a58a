// Graph text: what verifies prints exactly, and every op answers the compiler's
// questions about it.
#include "base/check.h"
#include "shardformer/config.h"
#include "shardformer/model.h"
#include "tensor/graph/text.h"
#include "tensor/graph/verifier.h"
#include "tensor/io/json.h"
#include "tensor/passes/common_subexpressions.h"
#include "tensor/passes/dead_code.h"
#include "tensor/passes/fusion.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/seed_files.h"

namespace colossus {
namespace {

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const char* file :
       {"decode.graph", "decode_whole.graph", "encoder_decoder.graph", "mixture.graph"}) {
    seeds.push_back(ReadSeedFile("tests/gate", "", file));
  }
  for (const char* model : {"gpt2_untied", "qwen2_layers"}) {
    absl::StatusOr<nlohmann::json> json =
        ParseJson(ReadSeedFile("tests/golden", model, "config.json"), "config.json");
    CHECK_OK(json);
    (*json)[(*json).contains("n_layer") ? "n_layer" : "num_hidden_layers"] = 1;
    json->erase("layer_types");
    absl::StatusOr<ModelConfig> config = ReadModelConfig(*json, "config.json");
    CHECK_OK(config);
    for (bool cached : {false, true}) {
      ForwardOptions options;
      options.rows = 2;
      options.length = 3;
      options.loss = !cached;
      options.logits = cached;
      options.cache_capacity = cached ? 8 : 0;
      absl::StatusOr<Graph> graph = BuildForward(*config, options);
      CHECK_OK(graph);
      seeds.push_back(ToText(*graph));
      absl::StatusOr<Rewritten> fused = Fusion(*graph);
      CHECK_OK(fused);
      seeds.push_back(ToText(fused->graph));
    }
  }
  return seeds;
}

void Ask(const Graph& graph, const Node& node) {
  const Types operands = graph.OperandTypes(node);
  const OpCall call{operands, node.attributes};
  CHECK_OK(node.op->Infer(call));
  const FactorRule rule = node.op->Factors(call);
  const Cost cost = node.op->CostOf(call);
  CHECK(cost.flops >= 0 && cost.bytes >= 0) << node.op->name();
  for (const auto& [result, operand] : node.op->MayAlias(call)) {
    CHECK(result >= 0 && result < static_cast<int>(node.results.size())) << node.op->name();
    CHECK(operand >= 0 && operand < static_cast<int>(operands.size())) << node.op->name();
  }
  if (node.op->IsView(call)) CHECK_EQ(node.op->ViewOffsets(call).size(), node.results.size());
  const std::vector<int64_t> places = node.op->OperandPlaces(call);
  CHECK(places.empty() || places.size() == operands.size()) << node.op->name();
}

void Run(absl::string_view input) {
  absl::StatusOr<Graph> graph = ParseGraph(input);
  if (!graph.ok()) return;
  if (!Verify(*graph).ok()) return;  // ParseGraph checks nodes, not the records of states
  const std::string text = ToText(*graph);
  absl::StatusOr<Graph> again = ParseGraph(text);
  CHECK_OK(again) << text;
  CHECK_EQ(ToText(*again), text);
  for (const Node& node : graph->nodes()) Ask(*graph, node);
  for (auto pass : {CommonSubexpressions, DeadCode, Fusion}) {
    absl::StatusOr<Rewritten> result = pass(*graph);
    CHECK_OK(result) << text;
    CHECK_OK(Verify(result->graph));
  }
}

}  // namespace

const FuzzTarget& Target() {
  static const FuzzTarget target = {
      .name = "graph_text",
      .seeds = Seeds,
      .run = Run,
      .words = {"feed",
                "state",
                "update",
                "output",
                "%",
                ":",
                "=",
                "f32[2]",
                "i32[]",
                "bf16[0]",
                "{dims=[0], keep=true}",
                "clone=1",
                "@h.0",
                "[]i",
                "0x1p-5",
                "inf",
                "matmul",
                "reshape",
                "attention",
                "reduce_sum",
                "softmax",
                "slice",
                "concat",
                "transpose",
                "f32[4294967296, 4294967296]",
                "sharded([data], []; [tensor])",
                "tier(host)",
                "with=[\"bias\"]",
                "steps=[\"add x0 x1\", \"convert t0 dtype=f32\"]",
                "results=[0, 1]",
                "\"scale t0 factor=nan\"",
                "\"dropout x0 x1 x2 rate=0x1p-2 site=a\""},
  };
  return target;
}

}  // namespace colossus
