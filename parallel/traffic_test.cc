// NUMBERS.md 4.2 and 4.3: what a layer costs on the links, counted by the communicators.
//
// A model of two layers less one of one layer is a layer: embedding, head and loss cancel. Elements
// are those that all ranks send, so that sizes which ranks do not divide evenly are exact too.
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "parallel/plan.h"
#include "parallel/rank_graph.h"
#include "shardformer/model.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/passes/common_subexpressions.h"
#include "tensor/passes/dead_code.h"
#include "tensor/passes/pass.h"
#include "tensor/testing/run_on_ranks.h"

namespace colossus {
namespace {

using ::testing::AnyOf;

struct Shape {
  int64_t b, s, h, heads, kv_heads, head_dim;  // b: of all data ranks
  int64_t query_width() const { return heads * head_dim; }
  int64_t kv_width() const { return kv_heads * head_dim; }
};

ModelConfig ConfigOf(const Shape& shape, int64_t layers) {
  ModelConfig config;
  config.family = "llama";
  config.vocabulary = 16;
  config.max_positions = 1024;
  config.layers = layers;
  config.hidden = shape.h;
  config.heads = shape.heads;
  config.kv_heads = shape.kv_heads;
  config.head_dim = shape.head_dim;
  config.mlp = 8;
  config.activation = Activation::kSilu;
  config.norm_epsilon = 1e-5;
  config.windows = std::vector<int64_t>(static_cast<size_t>(layers), 0);
  config.rope = RopeParameters{};
  return config;
}

HostTensor Input(const Value& value, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform(-1, 1);
  HostTensor x(value.type);
  for (int64_t i = 0; i < value.type.elements(); ++i) {
    x.Set(i, IsFloat(value.type.dtype) ? uniform(random) : static_cast<double>(i % 16));
  }
  return x;
}

// Elements that all ranks send in a forward and backward.
absl::StatusOr<int64_t> SentElements(const ModelConfig& config, const Plan& plan, int64_t rows) {
  ForwardOptions options;
  options.rows = rows;
  options.length = plan.sequence_length;
  options.gradients = true;
  ASSIGN_OR_RETURN(Graph forward, BuildForward(config, options));
  ASSIGN_OR_RETURN(Differentiated d, Autodiff(forward, forward.FindOutput("loss_sum"),
                                              forward.FindValue("loss_seed")));
  PassPipeline pipeline;
  pipeline.Add("cse", CommonSubexpressions);
  pipeline.Add("dead_code", DeadCode);
  ASSIGN_OR_RETURN(Rewritten rewritten, pipeline.Run(d.graph));
  const Graph& graph = rewritten.graph;
  std::vector<Graph> graphs;
  Partitioned local;
  MeshPlace place;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    ASSIGN_OR_RETURN(place, MeshPlace::Of(plan, config, rank));
    ASSIGN_OR_RETURN(local,
                     RankGraph(graph, d.parameters, plan, config, place));
    graphs.push_back(local.graph);
  }
  std::mt19937_64 random(7);
  std::vector<HostTensors> inputs(graphs.size());
  auto feed = [&](const std::string& name, const Sharding& sharding) {
    const HostTensor whole = Input(graph.value(graph.FindValue(name)), random);
    std::vector<HostTensor> parts = TakeApart(whole, sharding, place.mesh, random, false);
    for (size_t rank = 0; rank < parts.size(); ++rank) inputs[rank][name] = parts[rank];
  };
  for (const auto& [name, sharding] : local.feeds) feed(name, sharding);
  for (const LocalState& state : local.states) feed(state.info.name, state.sharding);
  ASSIGN_OR_RETURN(std::vector<RankRun> runs,
                   RunGraphsOnRanks(place.mesh, graphs, inputs, CpuKernels()));
  int64_t elements = 0;
  for (const RankRun& run : runs) {
    for (const auto& counts : run.counts) elements += counts.second.elements;
  }
  return elements;
}

int64_t ElementsOfALayer(const Shape& shape, const Plan& plan) {
  absl::StatusOr<int64_t> two = SentElements(ConfigOf(shape, 2), plan, shape.b);
  absl::StatusOr<int64_t> one = SentElements(ConfigOf(shape, 1), plan, shape.b);
  EXPECT_OK(two.status());
  EXPECT_OK(one.status());
  return two.ok() && one.ok() ? *two - *one : -1;
}

class Shapes {
 public:
  Shapes() : random_(TestSeed()) {}

  // Heads and positions that `ranks` divide.
  Shape Next(int64_t ranks, int64_t data) {
    Shape shape;
    shape.b = data * (1 + Below(3));
    shape.s = ranks * (1 + Below(4));
    shape.h = 1 + Below(24);
    shape.kv_heads = ranks * (1 + Below(2));
    shape.heads = shape.kv_heads * (1 + Below(2));
    shape.head_dim = 2 * (1 + Below(3));
    return shape;
  }
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

 private:
  std::mt19937_64 random_;
};

Plan PlanOn(const std::string& axis, int64_t ranks, int64_t data, int64_t length) {
  Plan plan;
  plan.sequence_length = length;
  plan.stages[0].mesh = {{"data", data}, {axis, ranks}};
  plan.stages[0].ranks.clear();
  for (int64_t rank = 0; rank < data * ranks; ++rank) {
    plan.stages[0].ranks.push_back(static_cast<int>(rank));
  }
  return plan;
}

std::string Say(const Shape& s, int64_t ranks) {
  return absl::StrCat("b ", s.b, " s ", s.s, " h ", s.h, " heads ", s.heads, "/", s.kv_heads, " x ",
                      s.head_dim, " on ", ranks);
}

constexpr int kShapes = 70;  // for each technique

// Megatron: 4 all_reduces of b s h, 2 forward and 2 backward: 8 (P - 1)/P b s h a rank.
TEST(TrafficTest, TensorParallel) {
  Shapes shapes;
  for (int i = 0; i < kShapes && !HasFailure(); ++i) {
    const int64_t ranks = 2 + 2 * (i % 2), data = i % 5 == 0 ? 2 : 1;
    const Shape s = shapes.Next(ranks, data);
    Plan plan = PlanOn("tensor", ranks, data, s.s);
    plan.norms = NormLayout::kReplicated;
    EXPECT_EQ(ElementsOfALayer(s, plan), 8 * (ranks - 1) * s.b * s.s * s.h) << Say(s, ranks);
  }
}

// With sequence-parallel norms 4 all_gathers and 4 reduce_scatters, as much, and 2 all_gathers of
// what is kept in parts and gathered again for the gradients of weights.
TEST(TrafficTest, SequenceParallelNorms) {
  Shapes shapes;
  for (int i = 0; i < kShapes && !HasFailure(); ++i) {
    const int64_t ranks = 2 + 2 * (i % 2), data = i % 5 == 0 ? 2 : 1;
    const Shape s = shapes.Next(ranks, data);
    Plan plan = PlanOn("tensor", ranks, data, s.s);
    plan.norms = NormLayout::kSharded;
    EXPECT_EQ(ElementsOfALayer(s, plan), 10 * (ranks - 1) * s.b * s.s * s.h) << Say(s, ranks);
  }
}

// Ulysses: q, k, v and the result change places, forward and backward; of each (P - 1)/P moves.
TEST(TrafficTest, AllToAllSequence) {
  Shapes shapes;
  for (int i = 0; i < kShapes / 2 && !HasFailure(); ++i) {
    const int64_t ranks = 2 + 2 * (i % 2), data = i % 5 == 0 ? 2 : 1;
    Shape s = shapes.Next(ranks, data);
    // Where size matters more than latency, and the model is as wide as its heads: of a narrow one
    // it is cheaper to move the stream than the heads.
    s.head_dim *= 4;
    s.s = 64 * ranks * (1 + shapes.Below(2)) / 2;
    s.h = s.query_width();
    Plan plan = PlanOn("sequence", ranks, data, s.s);
    plan.sequence = SequenceParallelism::kAllToAll;
    const int64_t moved = s.b * s.s * 2 * (2 * s.query_width() + 2 * s.kv_width());
    EXPECT_EQ(ElementsOfALayer(s, plan), (ranks - 1) * moved / ranks) << Say(s, ranks);
  }
}

// Ring: forward 2 (P - 1)/P b s h_kv a rank, backward twice as much; positions, where there are
// some, travel with the keys, one number each, forward and backward.
TEST(TrafficTest, RingSequence) {
  Shapes shapes;
  for (int i = 0; i < kShapes && !HasFailure(); ++i) {
    const int64_t ranks = 2 + 2 * (i % 2), data = i % 5 == 0 ? 2 : 1;
    const Shape s = shapes.Next(ranks, data);
    Plan plan = PlanOn("sequence", ranks, data, s.s);
    plan.sequence = SequenceParallelism::kRing;
    const int64_t keys = (ranks - 1) * s.b * s.s;
    EXPECT_THAT(ElementsOfALayer(s, plan),
                AnyOf(6 * keys * s.kv_width(), 6 * keys * s.kv_width() + 2 * keys))
        << Say(s, ranks);
  }
}

}  // namespace
}  // namespace colossus
