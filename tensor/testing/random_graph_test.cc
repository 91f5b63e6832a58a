#include "tensor/testing/random_graph.h"

#include <set>
#include <string>

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/graph/text.h"
#include "tensor/graph/verifier.h"
#include "tensor/kernels/reference/interpreter.h"

namespace colossus {
namespace {

TEST(RandomGraphTest, VerifiesRunsAndReadsBack) {
  uint64_t seed = TestSeed();
  std::set<std::string> ops;
  size_t nodes = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    SCOPED_TRACE(seed + i);
    Graph graph = RandomGraph(seed + i);
    ASSERT_OK(Verify(graph));
    std::string text = ToText(graph);
    EXPECT_EQ(text, ToText(RandomGraph(seed + i)));
    ASSERT_OK_AND_ASSIGN(Graph parsed, ParseGraph(text));
    EXPECT_EQ(ToText(parsed), text);
    ASSERT_OK(Verify(parsed));
    HostTensors inputs = RandomInputs(graph, seed + i);
    ASSERT_OK_AND_ASSIGN(HostTensors out, Interpret(graph, inputs));
    ASSERT_OK_AND_ASSIGN(HostTensors again, Interpret(parsed, inputs));
    EXPECT_EQ(out, again);
    for (const auto& item : out) {
      for (double v : item.second.ToDoubles()) ASSERT_LT(std::abs(v), 1e6) << item.first;
    }
    for (const Node& node : graph.nodes()) ops.insert(std::string(node.op->name()));
    nodes += graph.nodes().size();
  }
  EXPECT_GE(ops.size(), 30u);
  EXPECT_GE(nodes, 100 * 20u);
}

}  // namespace
}  // namespace colossus
