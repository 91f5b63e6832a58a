#include "parallel/sharding/partition.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "parallel/sharding/lockstep.h"
#include "parallel/sharding/rules.h"
#include "shardformer/model.h"
#include "tensor/graph/text.h"
#include "tensor/graph/verifier.h"
#include "tensor/kernels/reference/interpreter.h"
#include "tensor/ops/collective.h"
#include "tensor/passes/common_subexpressions.h"
#include "tensor/passes/dead_code.h"
#include "tensor/passes/pass.h"
#include "tensor/testing/random_graph.h"

namespace colossus {
namespace {

Mesh MakeMesh(std::vector<MeshAxis> axes) {
  absl::StatusOr<Mesh> mesh = Mesh::Make(std::move(axes));
  CHECK_OK(mesh.status());
  return *std::move(mesh);
}

// A small model differentiated, in f64, so that only roundings of 2^-53 tell layouts apart.
struct Model {
  Graph graph;
  std::vector<ParameterGradients> parameters;
};

ModelConfig SmallConfig(const std::string& family, int64_t kv_heads) {
  ModelConfig config;
  config.family = family;
  config.vocabulary = 24;
  config.max_positions = 16;
  config.layers = 2;
  config.hidden = 12;
  config.heads = 4;
  config.kv_heads = family == "gpt2" ? 4 : kv_heads;
  config.head_dim = 6;
  config.mlp = 16;
  config.activation = family == "gpt2" ? Activation::kGeluTanh : Activation::kSilu;
  config.norm_epsilon = 1e-5;
  config.tie_word_embeddings = family == "gpt2";
  config.windows = {0, 3};
  config.attention_dropout = config.embedding_dropout = config.residual_dropout = 0.25;
  if (family != "gpt2") config.rope = RopeParameters{};
  return config;
}

absl::StatusOr<Model> BuildModel(const ModelConfig& config, const ForwardOptions& options) {
  ASSIGN_OR_RETURN(Graph forward, BuildForward(config, options));
  ASSIGN_OR_RETURN(Differentiated d, Autodiff(forward, forward.FindOutput("loss_sum"),
                                              forward.FindValue("loss_seed")));
  PassPipeline pipeline;
  pipeline.Add("cse", CommonSubexpressions);
  pipeline.Add("dead_code", DeadCode);
  ASSIGN_OR_RETURN(Rewritten rewritten, pipeline.Run(d.graph));
  return Model{std::move(rewritten.graph), std::move(d.parameters)};
}

// Runs the graph whole and on all ranks of the mesh, and compares outputs and states.
void ExpectSame(const Graph& graph, const std::vector<ParameterGradients>& parameters,
                const ShardingRules& rules, const Mesh& mesh, const HostTensors& inputs,
                const Limit& limit) {
  ASSERT_OK_AND_ASSIGN(Graph annotated, AnnotateShardings(graph, rules, mesh));
  PartitionOptions options;
  options.mesh = &mesh;
  options.gradients = GradientShardings(annotated, parameters);
  std::vector<Graph> graphs;
  std::vector<HostTensors> local_inputs;
  Partitioned first;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    options.rank = rank;
    ASSERT_OK_AND_ASSIGN(Partitioned local, Partition(annotated, options));
    ASSERT_OK(Verify(local.graph)) << ToText(local.graph);
    HostTensors parts;
    for (const auto& [name, sharding] : local.feeds) {
      parts[name] = PartOf(inputs.at(name), sharding, mesh, rank);
    }
    for (const LocalState& state : local.states) {
      parts[state.info.name] = PartOf(inputs.at(state.info.name), state.sharding, mesh, rank);
    }
    local_inputs.push_back(std::move(parts));
    graphs.push_back(local.graph);
    if (rank == 0) first = std::move(local);
  }
  ASSERT_OK_AND_ASSIGN(HostTensors whole, Interpret(graph, inputs));
  ASSERT_OK_AND_ASSIGN(std::vector<HostTensors> parts, RunLockstep(graphs, local_inputs, mesh));
  auto compare = [&](const std::string& name, const Sharding& sharding) {
    std::vector<HostTensor> mine;
    for (const HostTensors& part : parts) mine.push_back(part.at(name));
    const HostTensor joined = Join(mine, sharding, whole.at(name).type().dims, mesh);
    EXPECT_TRUE(TensorNear(joined.ToDoubles(), whole.at(name).ToDoubles(), limit))
        << name << " " << ToText(sharding) << "\n"
        << ToText(graphs[0]);
  };
  for (const auto& [name, sharding] : first.outputs) {
    compare(name, sharding);
    if (::testing::Test::HasFailure()) return;
  }
  for (const LocalState& state : first.states) compare(state.info.name, state.sharding);
}

ShardingRules MegatronRules(bool sharded_norms) {
  ShardingRules rules;
  for (const char* name : {"heads", "kv_heads", "mlp", "vocab"}) {
    rules.parameters[name] = rules.activations[name] = {"tensor"};
  }
  rules.activations["batch"] = {"data"};
  if (sharded_norms) rules.activations["residual"] = {"tensor"};
  return rules;
}

HostTensors ModelInputs(const ModelConfig& config, const Graph& graph) {
  HostTensors inputs = RandomInputs(graph, 5);
  for (ValueId v : graph.feeds()) {
    HostTensor& tensor = inputs[graph.value(v).name];
    if (graph.value(v).name == "loss_seed") tensor.Set(0, 0.125);
    if (graph.value(v).name == "first_row") tensor.Set(0, 3);
    if (graph.value(v).name == "segments") {
      for (int64_t i = 0; i < tensor.type().elements(); ++i) tensor.Set(i, i % 8 / 3);
    }
    if (graph.value(v).name == "labels") tensor.Set(1, -100);
  }
  (void)config;
  return inputs;
}

class PartitionModelTest : public ::testing::TestWithParam<const char*> {};

TEST_P(PartitionModelTest, EqualsTheWholeModel) {
  struct Row {
    std::vector<MeshAxis> mesh;
    bool sharded_norms;
    bool dropout, packed;
  };
  const Row rows[] = {
      {{{"data", 2}}, false, false, false},
      {{{"data", 4}}, false, true, true},
      {{{"tensor", 2}}, false, false, false},
      {{{"tensor", 2}}, true, true, false},
      {{{"tensor", 4}}, true, false, true},
      {{{"data", 2}, {"tensor", 2}}, true, true, true},
      {{{"tensor", 2}, {"data", 2}}, false, true, true},
  };
  for (const Row& row : rows) {
    const ModelConfig config = SmallConfig(GetParam(), 4);
    ForwardOptions options;
    options.rows = 4;
    options.length = 8;
    options.compute = DType::kF64;
    options.gradients = true;
    options.dropout = row.dropout;
    options.packed = row.packed;
    ASSERT_OK_AND_ASSIGN(Model model, BuildModel(config, options));
    const Mesh mesh = MakeMesh(row.mesh);
    std::string name;
    for (const MeshAxis& axis : row.mesh) absl::StrAppend(&name, axis.name, "=", axis.size, " ");
    SCOPED_TRACE(absl::StrCat(name, row.sharded_norms ? "sharded norms" : ""));
    // f64 in other orders of addition, far below the 1e-5 that is asked of layouts.
    ExpectSame(model.graph, model.parameters, MegatronRules(row.sharded_norms), mesh,
               ModelInputs(config, model.graph), {.absolute = 1e-12, .relative_l2 = 1e-10});
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

// Collectives of a block by op, as "all_gather 2, reduce_scatter 2"; their elements on the links.
std::string CollectivesOf(const Graph& graph, const std::string& block) {
  std::map<std::string, int> counts;
  for (const Node& node : graph.nodes()) {
    if (node.block == block && IsCollective(*node.op)) ++counts[std::string(node.op->name())];
  }
  return absl::StrJoin(counts, ", ", absl::PairFormatter(" "));
}

// Protects: layers move what the Megatron scheme moves, and no more: forward two all-reduces, or as
// many gathers and scatters; backward the same, and the gathered operands gathered again.
TEST_P(PartitionModelTest, LayersHaveTheCollectivesOfTheScheme) {
  const ModelConfig config = SmallConfig(GetParam(), 4);
  ForwardOptions options;
  options.rows = 2;
  options.length = 8;
  options.gradients = true;
  ASSERT_OK_AND_ASSIGN(Model model, BuildModel(config, options));
  const Mesh mesh = MakeMesh({{"tensor", 2}});
  for (bool sharded : {false, true}) {
    ASSERT_OK_AND_ASSIGN(Graph annotated,
                         AnnotateShardings(model.graph, MegatronRules(sharded), mesh));
    ASSERT_OK_AND_ASSIGN(
        Partitioned local,
        Partition(annotated, {&mesh, 0, GradientShardings(annotated, model.parameters)}));
    EXPECT_EQ(CollectivesOf(local.graph, "h.1"),
              sharded ? "all_gather 2, reduce_scatter 2" : "all_reduce 2")
        << ToText(local.graph);
    EXPECT_EQ(CollectivesOf(local.graph, "h.1.grad"),
              sharded ? "all_gather 4, reduce_scatter 2" : "all_reduce 2")
        << ToText(local.graph);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, PartitionModelTest, ::testing::Values("gpt2", "llama"));

}  // namespace
}  // namespace colossus
