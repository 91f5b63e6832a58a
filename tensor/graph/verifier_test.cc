#include "tensor/graph/verifier.h"

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/graph/text.h"
#include "tensor/ops/matmul.h"

namespace colossus {

// Reaches into a graph to break it.
class GraphTestPeer {
 public:
  static std::deque<Value>& Values(Graph& g) { return g.values_; }
  static std::deque<Node>& Nodes(Graph& g) { return g.nodes_; }
  static std::vector<State>& States(Graph& g) { return g.states_; }
  static std::vector<Output>& Outputs(Graph& g) { return g.outputs_; }
  static ValueIds& Feeds(Graph& g) { return g.feeds_; }
};

namespace {

using ::testing::StartsWith;

// Values: 0 x, 1 w, 2 m, 3 y, 4 z, 5 m2. Nodes: 0 matmul, 1 convert, 2 convert.
constexpr char kGraph[] = R"(graph g {
  feed %x: f32[4,3] sharded([data], [tensor])
  state %w: f32[3,5] {role=parameter, global=[3,5], disk=[5,3], axes=[embed, mlp], trainable}
  state %m: f32[3,5] {role=moment1, global=[3,5], disk=[], axes=[]}
  %y: f32[4,5] = matmul(%x, %w) {spec="m k, k n -> m n"}
  %z: bf16[4,5] = convert(%y) {dtype="bf16"}
  %m2: f32[3,5] = convert(%m) {dtype="f32"}
  update %m = %m2
  output z = %z
}
)";

using Peer = GraphTestPeer;

struct Planted {
  const char* what;
  const char* constraint;
  std::function<void(Graph&)> plant;
};

class PlantedTest : public ::testing::TestWithParam<Planted> {};

TEST_P(PlantedTest, IsFoundByItsConstraint) {
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(kGraph));
  ASSERT_OK(Verify(graph));
  GetParam().plant(graph);
  EXPECT_THAT(Verify(graph), StatusIs(absl::StatusCode::kInternal,
                                      StartsWith(std::string(GetParam().constraint) + ":")))
      << GetParam().what;
}

INSTANTIATE_TEST_SUITE_P(
    Table, PlantedTest,
    ::testing::Values(
        Planted{"bad name", "graph_c1", [](Graph& g) { Peer::Values(g)[3].name = "a b"; }},
        Planted{"two values of one name", "graph_c1",
                [](Graph& g) { Peer::Values(g)[3].name = "x"; }},
        Planted{"renamed behind the index", "graph_c1",
                [](Graph& g) { Peer::Values(g)[3].name = "q"; }},
        Planted{"output twice", "graph_c1",
                [](Graph& g) { Peer::Outputs(g).push_back(g.outputs()[0]); }},
        Planted{"defined twice", "graph_c2", [](Graph& g) { Peer::Feeds(g).push_back(0); }},
        Planted{"two nodes make one value", "graph_c2",
                [](Graph& g) { Peer::Nodes(g)[2].results = {4}; }},
        Planted{"wrong producer", "graph_c2", [](Graph& g) { Peer::Values(g)[4].producer = 0; }},
        Planted{"never defined", "graph_c2", [](Graph& g) { Peer::Nodes(g).pop_back(); }},
        Planted{"not topological", "graph_c3",
                [](Graph& g) { Peer::Nodes(g)[0].operands[0] = 4; }},
        Planted{"reads nothing", "graph_c3", [](Graph& g) { Peer::Nodes(g)[1].operands = {-1}; }},
        Planted{"no op", "graph_c4", [](Graph& g) { Peer::Nodes(g)[0].op = nullptr; }},
        Planted{"Infer refuses", "graph_c4", [](Graph& g) { Peer::Nodes(g)[0].operands = {0, 0}; }},
        Planted{"another type", "graph_c4",
                [](Graph& g) { Peer::Values(g)[3].type = {DType::kF32, {4, 6}}; }},
        Planted{"another op", "graph_c4", [](Graph& g) { Peer::Nodes(g)[1].op = &MatmulOp(); }},
        Planted{"state named otherwise", "graph_c5",
                [](Graph& g) { Peer::States(g)[0].info.name = "v"; }},
        Planted{"ends in another type", "graph_c5", [](Graph& g) { Peer::States(g)[1].out = 3; }},
        Planted{"two states, one end", "graph_c5", [](Graph& g) { Peer::States(g)[0].out = 5; }},
        Planted{"ends in another's start", "graph_c5",
                [](Graph& g) { Peer::States(g)[1].out = 1; }},
        Planted{"axes", "graph_c6", [](Graph& g) { Peer::States(g)[0].info.axes = {"embed"}; }},
        Planted{"disk", "graph_c6", [](Graph& g) { Peer::States(g)[0].info.disk_dims = {5, 4}; }},
        Planted{"local above global", "graph_c6",
                [](Graph& g) { Peer::States(g)[1].info.global_dims = {3, 4}; }},
        Planted{"tied to itself", "graph_c6",
                [](Graph& g) { Peer::States(g)[0].info.tied_to = "w"; }},
        Planted{"sharding of three dims", "graph_c8",
                [](Graph& g) { Peer::Values(g)[0].sharding->dims.push_back({}); }},
        Planted{"axis used twice", "graph_c8",
                [](Graph& g) { Peer::Values(g)[0].sharding->partial = {"data"}; }},
        Planted{"output of nothing", "graph_c9", [](Graph& g) { Peer::Outputs(g)[0].value = 99; }},
        Planted{"update to nothing", "graph_c9", [](Graph& g) { Peer::States(g)[1].out = 99; }}));

// An op whose factor rule does not fit what Infer gives.
class BadRuleOp final : public Op {
 public:
  absl::string_view name() const override { return "bad_rule"; }
  absl::StatusOr<Types> Infer(const OpCall& call) const override {
    return Types{call.operands[0]};
  }
  FactorRule Factors(const OpCall&) const override { return *ParseFactorRule("a -> a"); }
  Cost CostOf(const OpCall&) const override { return {}; }
};

TEST(VerifierTest, FactorRuleMustBind) {
  static const BadRuleOp op;
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph("graph g { feed %x: f32[4,3] feed %v: f32[4] "
                                               "%y: f32[4,3] = convert(%x) {dtype=\"f32\"} }"));
  Peer::Nodes(graph)[0].op = &op;
  EXPECT_THAT(Verify(graph), StatusIs(absl::StatusCode::kInternal, StartsWith("graph_c7:")));
}

}  // namespace
}  // namespace colossus
