#include "tensor/passes/autodiff.h"

#include <cmath>
#include <random>
#include <string>

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/graph/text.h"
#include "tensor/graph/verifier.h"
#include "tensor/kernels/reference/interpreter.h"
#include "tensor/passes/dead_code.h"
#include "tensor/testing/random_graph.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Differentiated> Differentiate(const Graph& graph) {
  return Autodiff(graph, graph.FindOutput("loss"), graph.FindValue("seed"));
}

constexpr char kState[] = "{role=parameter, global=[], disk=[], axes=[], trainable}";

// `body`: the statements of a graph with feed x, seed and what it declares itself.
std::string GraphText(absl::string_view body) {
  std::string text = "graph g {\n  feed %x: f32[2,3]\n  feed %seed: f32[]\n";
  text.append(body.data(), body.size());
  for (size_t at; (at = text.find("STATE")) != std::string::npos;) text.replace(at, 5, kState);
  return text + "}\n";
}

std::string GradientText(absl::string_view body) {
  absl::StatusOr<Graph> graph = ParseGraph(GraphText(body));
  if (!graph.ok()) return std::string(graph.status().message());
  absl::StatusOr<Differentiated> d = Differentiate(*graph);
  if (!d.ok()) return std::string(d.status().message());
  absl::StatusOr<Rewritten> live = DeadCode(d->graph);
  return live.ok() ? ToText(live->graph) : std::string(live.status().message());
}

TEST(AutodiffTest, AddsReverseNodesInGradientBlocks) {
  constexpr char kForward[] = R"(  state %w: f32[3] STATE
  %h: f32[2,3] = mul(%x, %w) @h.0
  %y: f32[2,3] = tanh(%h) @h.1
  %loss: f32[] = reduce_sum(%y) {dims=[0, 1], keep=false} @loss
)";
  EXPECT_EQ(GradientText(std::string(kForward) + "  output loss = %loss\n"),
            GraphText(std::string(kForward) +
                      R"(  %loss.grad/reshape: f32[1,1] = reshape(%seed))"
                      R"( {dims=[1, 1], spec=" -> 1 1"} @loss.grad
  %d.y: f32[2,3] = broadcast(%loss.grad/reshape) {dims=[2, 3]} @loss.grad
  %d.h: f32[2,3] = tanh_grad(%d.y, %y) @h.1.grad
  %h.0.grad/mul: f32[2,3] = mul(%d.h, %x) @h.0.grad
  %d.w: f32[3] = reduce_sum(%h.0.grad/mul) {dims=[0], keep=false} @h.0.grad
  output loss = %loss
  output d.w = %d.w
)"));
}

TEST(AutodiffTest, EachReadOfAParameterHasItsGradientAndFrozenOnesHaveNone) {
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(GraphText(R"(
  state %frozen: f32[3] {role=parameter, global=[3], disk=[3], axes=[]}
  state %unused: f32[3] STATE
  state %late: f32[3] STATE
  state %tied: f32[3] STATE
  %a: f32[2,3] = mul(%x, %tied)
  %b: f32[2,3] = mul(%a, %frozen)
  %c: f32[2,3] = mul(%b, %late)
  %d: f32[2,3] = mul(%c, %tied)
  %loss: f32[] = reduce_sum(%d) {dims=[0, 1], keep=false}
  output loss = %loss
)")));
  ASSERT_OK_AND_ASSIGN(Differentiated d, Differentiate(graph));
  ASSERT_OK(Verify(d.graph));
  ASSERT_EQ(d.parameters.size(), 2);
  EXPECT_EQ(d.parameters[0].state, "tied");
  EXPECT_EQ(d.parameters[0].outputs, (std::vector<std::string>{"d.tied", "d.tied.1"}));
  EXPECT_EQ(d.parameters[1].state, "late");
  // d loss / d tied at its second read is c summed over rows; there x and both factors count.
  HostTensors in = RandomInputs(graph, 1);
  in["seed"].Set(0, 1);
  ASSERT_OK_AND_ASSIGN(HostTensors all, InterpretAll(d.graph, in));
  EXPECT_FLOAT_EQ(all.at("d.tied.1").Get(0), all.at("c").Get(0) + all.at("c").Get(3));
}

TEST(AutodiffTest, ParameterGradientsAreAtLeastF32) {
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(R"(graph g {
  feed %x: bf16[2,3]
  feed %seed: f32[]
  state %w: bf16[3,4] {role=parameter, global=[3,4], disk=[3,4], axes=[], trainable}
  %y: bf16[2,4] = matmul(%x, %w) {spec="m k, k n -> m n"}
  %z: f32[2,4] = convert(%y) {dtype="f32"}
  %loss: f32[] = reduce_sum(%z) {dims=[0, 1], keep=false}
  output loss = %loss
})"));
  ASSERT_OK_AND_ASSIGN(Differentiated d, Differentiate(graph));
  EXPECT_EQ(d.graph.value(d.graph.FindOutput(d.parameters[0].outputs[0])).type,
            (Type{DType::kF32, {3, 4}}));
  EXPECT_EQ(d.graph.value(d.graph.FindValue("d.y")).type.dtype, DType::kBF16);
}

struct Refusal {
  const char* body;
  const char* message;
};

class RefusalTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusalTest, NamesTheReason) {
  EXPECT_THAT(GradientText(GetParam().body), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Table, RefusalTest,
    ::testing::Values(
        Refusal{"output loss = %seed", "'seed' of type f32[] is not a computed float scalar"},
        Refusal{"output loss = %x", "'x' of type f32[2,3] is not a computed"},
        Refusal{"%s: f32[] = tanh(%seed) output loss = %s", "no trainable parameter reaches"},
        Refusal{"%s: f32[] = tanh(%seed)", "not a value of the graph"},
        Refusal{"state %w: f64[] STATE %s: f64[] = tanh(%w) output loss = %s",
                "seed 'seed' of type f32[] for a loss of type f64[]"},
        Refusal{"state %w: f32[] STATE %i: i32[] = convert(%w) {dtype=\"i32\"} "
                "%s: f32[] = convert(%i) {dtype=\"f32\"} output loss = %s",
                "no trainable parameter reaches"},
        Refusal{"state %w: f32[] STATE %g: f32[] = tanh_grad(%w, %seed) output loss = %g",
                "autodiff: gradient of 'g': "}));

// The derivative of the loss along a random direction of one parameter, by central differences in
// f64, against the inner product of direction and gradient. With step h = 1e-5 the error is about
// h^2 |L'''| + 1e-16 |L| / h, below 1e-8 for values and third derivatives up to 100.
// Protects: a cotangent is laid out as its value, the finished one of several summands too.
TEST(AutodiffTest, CotangentsHaveTheShardingOfTheirValues) {
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(R"(graph g {
  feed %x: f32[2,3]
  feed %seed: f32[]
  state %w: f32[3] {role=parameter, global=[3], disk=[3], axes=[embed], trainable}
  %y: f32[2,3] sharded([batch], []) = mul(%x, %w) @a
  %z: f32[2,3] = mul(%y, %y) @b
  %loss: f32[] = reduce_sum(%z) {dims=[0, 1], keep=false} @c
  output loss = %loss
})"));
  ASSERT_OK_AND_ASSIGN(Differentiated d,
                       Autodiff(graph, graph.FindOutput("loss"), graph.FindValue("seed")));
  const Value& dy = d.graph.value(d.graph.FindValue("d.y"));
  EXPECT_EQ(dy.sharding, graph.value(graph.FindValue("y")).sharding);
  EXPECT_FALSE(d.graph.value(d.graph.FindValue("d.z")).sharding);
}

TEST(AutodiffTest, GradientsOfRandomGraphsAgreeWithFiniteDifferences) {
  uint64_t seed = TestSeed();
  for (uint64_t i = 0; i < 60; ++i) {
    SCOPED_TRACE(seed + i);
    Graph graph = RandomGraph(seed + i, {.dtype = DType::kF64});
    ASSERT_OK_AND_ASSIGN(Differentiated d, Differentiate(graph));
    ASSERT_OK(Verify(d.graph));
    HostTensors inputs = RandomInputs(graph, seed + i);
    const double cotangent = inputs.at("seed").Get(0);
    ASSERT_OK_AND_ASSIGN(HostTensors out, Interpret(d.graph, inputs));
    std::mt19937_64 random(seed + i);
    for (const ParameterGradients& parameter : d.parameters) {
      HostTensors plus = inputs, minus = inputs;
      double expected = 0;
      const double h = 1e-5;
      for (int64_t e = 0; e < inputs.at(parameter.state).type().elements(); ++e) {
        double direction = random() % 2 ? 1 : -1, w = inputs.at(parameter.state).Get(e);
        plus[parameter.state].Set(e, w + h * direction);
        minus[parameter.state].Set(e, w - h * direction);
        for (const std::string& output : parameter.outputs) {
          expected += direction * out.at(output).Get(e);
        }
      }
      ASSERT_OK_AND_ASSIGN(HostTensors up, Interpret(graph, plus));
      ASSERT_OK_AND_ASSIGN(HostTensors down, Interpret(graph, minus));
      double numeric = cotangent * (up.at("loss").Get(0) - down.at("loss").Get(0)) / (2 * h);
      ASSERT_LE(std::abs(numeric - expected), 1e-6 * std::max(1.0, std::abs(expected)))
          << parameter.state << " in " << ToText(d.graph);
    }
  }
}

TEST(AutodiffTest, IsDeterministic) {
  Graph graph = RandomGraph(TestSeed());
  ASSERT_OK_AND_ASSIGN(Differentiated a, Differentiate(graph));
  ASSERT_OK_AND_ASSIGN(Differentiated b, Differentiate(graph));
  EXPECT_EQ(ToText(a.graph), ToText(b.graph));
  // The forward part is unchanged.
  std::string forward = ToText(graph);
  forward = forward.substr(0, forward.find("  update"));
  EXPECT_EQ(ToText(a.graph).substr(0, forward.size()), forward);
}

}  // namespace
}  // namespace colossus
