#include "tensor/passes/fusion.h"

#include <string>
#include <utility>

#include "base/status.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/graph/text.h"
#include "tensor/graph/verifier.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/kernels/reference/interpreter.h"
#include "tensor/passes/autodiff.h"
#include "tensor/passes/common_subexpressions.h"
#include "tensor/passes/dead_code.h"
#include "tensor/passes/recompute.h"
#include "tensor/testing/random_graph.h"

namespace colossus {
namespace {

std::string Fused(const std::string& text) {
  absl::StatusOr<Graph> before = ParseGraph(text);
  EXPECT_OK(before);
  absl::StatusOr<Rewritten> after = Fusion(*before);
  EXPECT_OK(after);
  EXPECT_OK(Verify(after->graph));
  absl::StatusOr<Graph> parsed = ParseGraph(ToText(after->graph));
  EXPECT_OK(parsed);
  return ToText(*parsed);
}

// Protects: a bias, an activation and a residual stream become two chains around the product.
TEST(FusionTest, JoinsWhatIsBetweenProducts) {
  EXPECT_EQ(Fused(R"(graph g {
  feed %x: bf16[2,4]
  feed %stream: f32[2,4]
  feed %bias: bf16[4]
  feed %w: bf16[4,4]
  %b: bf16[2,4] = add(%x, %bias) @h.0
  %g: bf16[2,4] = gelu(%b) @h.0
  %m: bf16[2,4] = matmul(%g, %w) {spec="s c, c d -> s d"} @h.0
  %n: bf16[2,4] = add(%m, %bias) @h.0
  %c: f32[2,4] = convert(%n) {dtype="f32"} @h.0
  %y: f32[2,4] = add(%stream, %c) @h.0
  output b = %b
  output y = %y
}
)"),
            R"(graph g {
  feed %x: bf16[2,4]
  feed %stream: f32[2,4]
  feed %bias: bf16[4]
  feed %w: bf16[4,4]
  %b: bf16[2,4], %g: bf16[2,4] = chain(%x, %bias) {results=[0, 1], steps=["add x0 x1", "gelu t0"]} @h.0
  %m: bf16[2,4] = matmul(%g, %w) {spec="s c, c d -> s d"} @h.0
  %y: f32[2,4] = chain(%m, %bias, %stream) {results=[2], steps=["add x0 x1", "convert t0 dtype=f32", "add x2 t1"]} @h.0
  output b = %b
  output y = %y
}
)");
}

// Protects: dropout joins what stands around it, unless it is that of a part.
TEST(FusionTest, JoinsDropout) {
  const std::string text = R"(graph g {
  feed %x: f32[2,4]
  feed %key: i64[2]
  feed %row: i64[]
  feed %bias: f32[4]
  %b: f32[2,4] = add(%x, %bias)
  %d: f32[2,4] = dropout(%b, %key, %row) {rate=0x1p-2, site="a"}
  %y: f32[2,4] = add(%x, %d)
  output y = %y
}
)";
  EXPECT_THAT(Fused(text),
              ::testing::HasSubstr("%y: f32[2,4] = chain(%x, %bias, %key, %row) {results=[2], "
                                   "steps=[\"add x0 x1\", \"dropout t0 x2 x3 rate=0x1p-2 site=a\", "
                                   "\"add x0 t1\"]}"));
  for (const char* apart : {"origin=[0, 4], global=[2, 8], ", "site=\"a b\""}) {
    std::string changed = text;
    if (apart[0] == 'o') changed.insert(changed.find("rate="), "global=[2, 8], origin=[0, 4], ");
    else changed.replace(changed.find("site=\"a\""), 8, apart);
    EXPECT_EQ(Fused(changed), changed);
  }
}

// Protects: a node waits for no reader of what it would join; other dims, blocks and integers stay
// apart.
TEST(FusionTest, LeavesApartWhatMayNotMove) {
  const std::string text = R"(graph g {
  feed %x: f32[2]
  feed %i: i32[2]
  %a: f32[2] = sin(%x) @h.0
  %sum: f32[] = reduce_sum(%a) {dims=[0], dtype="f32", keep=false} @h.0
  %b: f32[2] = mul(%a, %sum) @h.0
  %c: f32[2] = neg(%b) @h.1
  %small: f32[] = neg(%sum) @h.2
  %d: f32[2] = add(%c, %small) @h.2
  %j: i32[2] = neg(%i) @h.2
  %k: i32[2] = neg(%j) @h.2
  output d = %d
  output k = %k
}
)";
  EXPECT_EQ(Fused(text), text);
}

// Protects: chains may cross each other's nodes only where no value would have to travel back.
TEST(FusionTest, RegionsDoNotWaitForEachOther) {
  const std::string text = R"(graph g {
  feed %x: f32[2]
  %a: f32[2] = sin(%x)
  %s: f32[2] = softmax(%a)
  %b: f32[2] = exp(%s)
  %t: f32[2] = softmax(%b)
  %y: f32[2] = add(%a, %b)
  %z: f32[2] = add(%y, %t)
  output z = %z
}
)";
  const std::string fused = Fused(text);
  EXPECT_THAT(fused, ::testing::HasSubstr("chain(%a, %b, %t)"));
  EXPECT_THAT(fused, ::testing::HasSubstr("%b: f32[2] = exp(%s)"));
}

// Protects: long chains are cut at the limits of the op.
TEST(FusionTest, LongChainsAreCut) {
  std::string text = "graph g {\n  feed %v0: f32[3]\n";
  for (int i = 1; i <= 40; ++i) {
    text += "  %v" + std::to_string(i) + ": f32[3] = sin(%v" + std::to_string(i - 1) + ")\n";
  }
  ASSERT_OK_AND_ASSIGN(Graph before, ParseGraph(text + "  output y = %v40\n}\n"));
  ASSERT_OK_AND_ASSIGN(Rewritten after, Fusion(before));
  EXPECT_EQ(after.graph.nodes().size(), 3u);
  HostTensors inputs = RandomInputs(before, 1);
  ASSERT_OK_AND_ASSIGN(HostTensors apart, Interpret(before, inputs, CpuKernels()));
  ASSERT_OK_AND_ASSIGN(HostTensors joined, Interpret(after.graph, inputs, CpuKernels()));
  EXPECT_EQ(apart, joined);
}

absl::StatusOr<Graph> RandomTrainingGraph(uint64_t seed) {
  Graph forward = RandomGraph(seed, {.steps = 40});
  ASSIGN_OR_RETURN(Differentiated d, Autodiff(forward, forward.FindOutput("loss"),
                                              forward.FindValue("seed")));
  ASSIGN_OR_RETURN(Rewritten merged, CommonSubexpressions(d.graph));
  ASSIGN_OR_RETURN(Rewritten live, DeadCode(merged.graph));
  return std::move(live.graph);
}

// Protects: the bit rule, on the reference kernels and on the CPU's, with recomputation or without.
TEST(FusionTest, ChangesNoBitOfRandomGraphs) {
  const uint64_t seed = TestSeed();
  int chains = 0;
  for (uint64_t i = 0; i < 60; ++i) {
    SCOPED_TRACE(seed + i);
    ASSERT_OK_AND_ASSIGN(Graph graph, RandomTrainingGraph(seed + i));
    if (i % 3 == 0 && !graph.nodes().empty() && graph.nodes()[0].block == "b.0") {
      ASSERT_OK_AND_ASSIGN(Rewritten remade, Recompute(graph, {"b.0"}));
      graph = std::move(remade.graph);
    }
    ASSERT_OK_AND_ASSIGN(Rewritten after, Fusion(graph));
    ASSERT_OK(Verify(after.graph));
    for (const Node& node : after.graph.nodes()) chains += node.op->name() == "chain";
    const HostTensors inputs = RandomInputs(graph, seed + i);
    for (KernelList kernels : {ReferenceKernels(), CpuKernels()}) {
      ASSERT_OK_AND_ASSIGN(HostTensors apart, Interpret(graph, inputs, kernels));
      ASSERT_OK_AND_ASSIGN(HostTensors joined, Interpret(after.graph, inputs, kernels));
      ASSERT_EQ(apart, joined);
    }
    ASSERT_OK_AND_ASSIGN(Rewritten again, Fusion(after.graph));
    ASSERT_OK(Verify(again.graph));
  }
  EXPECT_GT(chains, 120);
}

}  // namespace
}  // namespace colossus
