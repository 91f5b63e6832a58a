#include "tensor/passes/recompute.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/graph/block.h"
#include "tensor/graph/text.h"
#include "tensor/graph/verifier.h"
#include "tensor/kernels/reference/interpreter.h"
#include "tensor/passes/autodiff.h"
#include "tensor/passes/common_subexpressions.h"
#include "tensor/passes/dead_code.h"
#include "tensor/testing/random_graph.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// a and b are needed by gradients only; c is read by the next block; d too, by the block itself.
constexpr char kBefore[] = R"(graph g {
  feed %x: f32[2]
  feed %dz: f32[2]
  %a: f32[2] = sin(%x) @h.0
  %b: f32[2] = tanh(%a) @h.0
  %c: f32[2] = mul(%b, %a) @h.0
  %d: f32[2] = tanh(%c) @h.1
  %e: f32[2] = mul(%d, %d) @h.1
  %de: f32[2] = mul(%dz, %d) @h.1.grad
  %dc: f32[2] = mul(%de, %c) @h.0.grad
  %da: f32[2] = mul(%dc, %b) @h.0.grad
  %dx: f32[2] = mul(%da, %a) @h.0.grad
  output e = %e
  output dx = %dx
}
)";

TEST(RecomputeTest, ClonesRightBeforeTheFirstReader) {
  ASSERT_OK_AND_ASSIGN(Graph before, ParseGraph(kBefore));
  ASSERT_OK_AND_ASSIGN(Rewritten after, Recompute(before, {"h.0"}));
  EXPECT_EQ(ToText(after.graph), R"(graph g {
  feed %x: f32[2]
  feed %dz: f32[2]
  %a: f32[2] = sin(%x) @h.0
  %b: f32[2] = tanh(%a) @h.0
  %c: f32[2] = mul(%b, %a) @h.0
  %d: f32[2] = tanh(%c) @h.1
  %e: f32[2] = mul(%d, %d) @h.1
  %de: f32[2] = mul(%dz, %d) @h.1.grad
  %dc: f32[2] = mul(%de, %c) @h.0.grad
  %a.clone1: f32[2] = sin(%x) @h.0 clone=1
  %b.clone1: f32[2] = tanh(%a.clone1) @h.0 clone=1
  %da: f32[2] = mul(%dc, %b.clone1) @h.0.grad
  %dx: f32[2] = mul(%da, %a.clone1) @h.0.grad
  output e = %e
  output dx = %dx
}
)");
  ASSERT_OK(Verify(after.graph));
  // Nothing merges the clones back, and a second time changes nothing.
  ASSERT_OK_AND_ASSIGN(Rewritten merged, CommonSubexpressions(after.graph));
  EXPECT_EQ(ToText(merged.graph), ToText(after.graph));
  ASSERT_OK_AND_ASSIGN(Rewritten again, Recompute(after.graph, {"h.0"}));
  EXPECT_EQ(ToText(again.graph), ToText(after.graph));
}

TEST(RecomputeTest, OutputsAreKept) {
  std::string text = kBefore;
  text.replace(text.find("output e = %e"), 13, "output b = %b");
  ASSERT_OK_AND_ASSIGN(Graph before, ParseGraph(text));
  ASSERT_OK_AND_ASSIGN(Rewritten after, Recompute(before, {"h.0"}));
  EXPECT_THAT(ToText(after.graph), HasSubstr("%da: f32[2] = mul(%dc, %b) @h.0.grad"));
  EXPECT_THAT(ToText(after.graph), HasSubstr("%dx: f32[2] = mul(%da, %a.clone1) @h.0.grad"));
}

TEST(RecomputeTest, RefusesUnknownBlocks) {
  ASSERT_OK_AND_ASSIGN(Graph before, ParseGraph(kBefore));
  for (const char* block : {"h.2", "h.0.grad"}) {
    EXPECT_THAT(Recompute(before, {"h.0", block}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(block)));
  }
}

// %a is made again beside %x, which is kept; %b is not, since nothing keeps %m but %b itself; a
// product is not cheap; %e is an output.
TEST(RecomputeTest, CheapNodesWithKeptOperands) {
  ASSERT_OK_AND_ASSIGN(Graph before, ParseGraph(R"(graph g {
  feed %x: f32[256,256]
  feed %dz: f32[256,256]
  %m: f32[256,256] = matmul(%x, %x) {spec="m k, k n -> m n"} @h.0
  %a: f32[256,256] = sin(%x) @h.0
  %b: f32[256,256] = tanh(%m) @h.0
  %c: f32[256,256] = mul(%b, %a) @h.0
  %e: f32[256,256] = cos(%a) @h.0
  %dc: f32[256,256] = mul(%dz, %c) @h.0.grad
  %db: f32[256,256] = mul(%dc, %b) @h.0.grad
  %dm: f32[256,256] = mul(%db, %e) @h.0.grad
  %da: f32[256,256] = mul(%dm, %a) @h.0.grad
  output e = %e
  output da = %da
}
)"));
  ASSERT_OK_AND_ASSIGN(Rewritten after, RecomputeCheap(before));
  ASSERT_OK(Verify(after.graph));
  const std::string text = ToText(after.graph);
  EXPECT_THAT(text, HasSubstr("  %a.clone1: f32[256,256] = sin(%x) @h.0 clone=1\n"
                              "  %c.clone1: f32[256,256] = mul(%b, %a.clone1) @h.0 clone=1\n"
                              "  %dc: f32[256,256] = mul(%dz, %c.clone1) @h.0.grad\n"
                              "  %db: f32[256,256] = mul(%dc, %b) @h.0.grad\n"
                              "  %dm: f32[256,256] = mul(%db, %e) @h.0.grad\n"
                              "  %da: f32[256,256] = mul(%dm, %a.clone1) @h.0.grad\n"));
  EXPECT_THAT(text, Not(HasSubstr("%m.clone1")));
  ASSERT_OK_AND_ASSIGN(Rewritten again, RecomputeCheap(after.graph));
  EXPECT_EQ(ToText(again.graph), text);
}

// What a test below runs: gradients of a random graph, cleaned up.
absl::StatusOr<Graph> RandomTrainingGraph(uint64_t seed, const RandomGraphOptions& options) {
  Graph forward = RandomGraph(seed, options);
  ASSIGN_OR_RETURN(Differentiated d, Autodiff(forward, forward.FindOutput("loss"),
                                              forward.FindValue("seed")));
  ASSIGN_OR_RETURN(Rewritten merged, CommonSubexpressions(d.graph));
  ASSIGN_OR_RETURN(Rewritten live, DeadCode(merged.graph));
  return std::move(live.graph);
}

TEST(RecomputeTest, CheapChangesNoBitOfRandomGraphs) {
  uint64_t seed = TestSeed();
  RandomGraphOptions options{.steps = 30};
  int clones = 0;
  for (uint64_t i = 0; i < 60; ++i) {
    SCOPED_TRACE(seed + i);
    ASSERT_OK_AND_ASSIGN(Graph graph, RandomTrainingGraph(seed + i, options));
    ASSERT_OK_AND_ASSIGN(Rewritten after, RecomputeCheap(graph));
    ASSERT_OK(Verify(after.graph));
    HostTensors inputs = RandomInputs(graph, seed + i);
    ASSERT_OK_AND_ASSIGN(HostTensors kept, Interpret(graph, inputs));
    ASSERT_OK_AND_ASSIGN(HostTensors remade, Interpret(after.graph, inputs));
    ASSERT_EQ(kept, remade);
    for (const Node& node : after.graph.nodes()) clones += node.clone;
  }
  EXPECT_GT(clones, 60);
}

TEST(RecomputeTest, ChangesNoBitOfRandomGraphs) {
  uint64_t seed = TestSeed();
  RandomGraphOptions options{.steps = 30};
  int clones = 0;
  for (uint64_t i = 0; i < 60; ++i) {
    SCOPED_TRACE(seed + i);
    ASSERT_OK_AND_ASSIGN(Graph graph, RandomTrainingGraph(seed + i, options));
    std::vector<std::string> blocks;
    for (const std::string& block : RandomGraphBlocks(options)) {
      bool present = false;
      for (const Node& node : graph.nodes()) present |= node.block == block;
      if (present && (seed + i + block.back()) % 3 != 0) blocks.push_back(block);
    }
    ASSERT_OK_AND_ASSIGN(Rewritten after, Recompute(graph, blocks));
    ASSERT_OK(Verify(after.graph));
    HostTensors inputs = RandomInputs(graph, seed + i);
    ASSERT_OK_AND_ASSIGN(HostTensors kept, Interpret(graph, inputs));
    ASSERT_OK_AND_ASSIGN(HostTensors remade, Interpret(after.graph, inputs));
    ASSERT_EQ(kept, remade);
    ASSERT_OK_AND_ASSIGN(Rewritten merged, CommonSubexpressions(after.graph));
    ASSERT_EQ(ToText(merged.graph), ToText(after.graph));
    for (const Node& node : after.graph.nodes()) clones += node.clone;
    // No gradient reads an original that has a clone.
    for (const Node& node : after.graph.nodes()) {
      if (!IsGradientBlock(node.block)) continue;
      for (ValueId v : node.operands) {
        const std::string& name = after.graph.value(v).name;
        ASSERT_EQ(after.graph.FindValue(name + ".clone1"), kNoValue) << name;
      }
    }
  }
  EXPECT_GT(clones, 60);
}

// h.0 runs three times: for its own backward and, since only the chain's input is kept, for that of
// h.1, whose input it makes.
TEST(RecomputeTest, ChainsForgetTheirBorders) {
  ASSERT_OK_AND_ASSIGN(Graph before, ParseGraph(R"(graph g {
  feed %x: f32[2]
  feed %dz: f32[2]
  %a: f32[2] = sin(%x) @h.0
  %b: f32[2] = tanh(%a) @h.0
  %c: f32[2] = tanh(%b) @h.1
  %e: f32[2] = sin(%c) @head
  %dc: f32[2] = mul(%dz, %c) @h.1.grad
  %db: f32[2] = mul(%dc, %b) @h.1.grad
  %da: f32[2] = mul(%db, %b) @h.0.grad
  %dx: f32[2] = mul(%da, %a) @h.0.grad
  output e = %e
  output dx = %dx
}
)"));
  ASSERT_OK_AND_ASSIGN(Rewritten after, RecomputeChain(before, {"h.0", "h.1"}, {{0}, {0, 1}}));
  ASSERT_OK(Verify(after.graph));
  EXPECT_THAT(ToText(after.graph), HasSubstr(R"(
  %dc: f32[2] = mul(%dz, %c) @h.1.grad
  %a.clone1: f32[2] = sin(%x) @h.0 clone=1
  %b.clone1: f32[2] = tanh(%a.clone1) @h.0 clone=1
  %db: f32[2] = mul(%dc, %b.clone1) @h.1.grad
  %a.clone2: f32[2] = sin(%x) @h.0 clone=2
  %b.clone2: f32[2] = tanh(%a.clone2) @h.0 clone=2
  %da: f32[2] = mul(%db, %b.clone2) @h.0.grad
  %dx: f32[2] = mul(%da, %a.clone2) @h.0.grad
)"));
  EXPECT_THAT(RecomputeChain(before, {"h.0", "h.2"}, {{}, {}}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("h.2")));
}

// Protects: whatever is forgotten when, alone and after RecomputeCheap.
TEST(RecomputeTest, ChainsChangeNoBitOfRandomGraphs) {
  const uint64_t seed = TestSeed();
  RandomGraphOptions options{.steps = 30};
  int most = 0;
  for (uint64_t i = seed; i < seed + 60; ++i) {
    SCOPED_TRACE(i);
    std::mt19937_64 random(i);
    ASSERT_OK_AND_ASSIGN(Graph graph, RandomTrainingGraph(i, options));
    std::vector<std::string> blocks;
    for (const std::string& block : RandomGraphBlocks(options)) {
      const bool present =
          std::any_of(graph.nodes().begin(), graph.nodes().end(),
                      [&](const Node& node) { return node.block == block && node.clone == 0; });
      if (present) blocks.push_back(block);
    }
    std::vector<std::vector<int>> again(blocks.size());
    for (size_t b = 0; b < blocks.size(); ++b) {
      for (size_t j = 0; j <= b; ++j) {
        if (random() % 2 == 0) again[b].push_back(static_cast<int>(j));
      }
    }
    HostTensors inputs = RandomInputs(graph, i);
    ASSERT_OK_AND_ASSIGN(HostTensors kept, Interpret(graph, inputs));
    if (random() % 2 == 0) {
      ASSERT_OK_AND_ASSIGN(Rewritten cheap, RecomputeCheap(graph));
      graph = std::move(cheap.graph);
    }
    ASSERT_OK_AND_ASSIGN(Rewritten after, RecomputeChain(graph, blocks, again));
    ASSERT_OK(Verify(after.graph));
    ASSERT_OK_AND_ASSIGN(HostTensors remade, Interpret(after.graph, inputs));
    ASSERT_EQ(kept, remade);
    for (const Node& node : after.graph.nodes()) most = std::max(most, node.clone);
  }
  EXPECT_GE(most, 3);
}

}  // namespace
}  // namespace colossus
