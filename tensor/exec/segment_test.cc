#include "tensor/exec/segment.h"

#include <string>
#include <vector>

#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/graph/text.h"
#include "tensor/graph/verifier.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A function of w and x, a block each for the product, the rest of the forward and the update.
constexpr char kGraph[] = R"(graph g {
  feed %x: f32[4,3] sharded([data], [])
  feed %unused: f32[2]
  state %w: f32[3,5] {role=parameter, global=[3,5], disk=[3,5], axes=[embed, mlp], trainable}
  state %m: f32[3,5] {role=moment1, global=[3,5], disk=[], axes=[]}
  %y: f32[4,5] = matmul(%x, %w) {spec="m k, k n -> m n"} @h.0
  %z: f32[4,5] = tanh(%y) @h.1
  %loss: f32[4,5] = mul(%z, %y) @h.1
  %dw: f32[3,5] = matmul(%x, %z) {spec="m k, m n -> k n"} @update
  %m2: f32[3,5] = add(%m, %dw) @update
  %w2: f32[3,5] = sub(%w, %m2) @update
  update %w = %w2
  update %m = %m2
  output loss = %loss
  output again = %z
}
)";

Graph Parse(const std::string& text) {
  absl::StatusOr<Graph> graph = ParseGraph(text);
  EXPECT_OK(graph.status()) << text;
  return *std::move(graph);
}

std::vector<std::string> Names(const Graph& graph, const ValueIds& values) {
  std::vector<std::string> names;
  for (ValueId v : values) names.push_back(graph.value(v).name);
  return names;
}

std::vector<std::string> Outputs(const Graph& graph) {
  std::vector<std::string> names;
  for (const Output& output : graph.outputs()) {
    names.push_back(output.name + "=" + graph.value(output.value).name);
  }
  return names;
}

std::vector<std::string> States(const Graph& graph) {
  std::vector<std::string> names;
  for (const State& state : graph.states()) {
    names.push_back(state.info.name + (state.out == state.in ? "" : "!"));
  }
  return names;
}

TEST(SegmentTest, CutsWhereTheBlockChanges) {
  Graph graph = Parse(kGraph);
  EXPECT_THAT(CutAtBlocks(graph), ElementsAre(0, 1, 1, 2, 2, 2));
  ASSERT_OK_AND_ASSIGN(std::vector<Segment> parts, CutIntoSegments(graph, CutAtBlocks(graph)));
  ASSERT_EQ(parts.size(), 3u);
  for (const Segment& part : parts) EXPECT_OK(Verify(*part.graph)) << part.name;
  EXPECT_EQ(parts[0].name, "h.0");
  EXPECT_EQ(parts[2].name, "update");
  const Graph &first = *parts[0].graph, &second = *parts[1].graph, &third = *parts[2].graph;
  EXPECT_THAT(Names(first, first.feeds()), ElementsAre("x"));
  EXPECT_THAT(States(first), ElementsAre("w"));
  EXPECT_THAT(Outputs(first), ElementsAre("y=y"));
  EXPECT_THAT(Names(second, second.feeds()), ElementsAre("y"));
  EXPECT_THAT(States(second), ElementsAre());
  EXPECT_THAT(Outputs(second), ElementsAre("loss=loss", "again=z", "z=z"));
  EXPECT_THAT(Names(third, third.feeds()), ElementsAre("x", "z"));
  EXPECT_THAT(States(third), ElementsAre("m!", "w!"));
  EXPECT_THAT(Outputs(third), ElementsAre());
  // Annotations, blocks and state records come along.
  EXPECT_TRUE(first.value(first.FindValue("x")).sharding.has_value());
  EXPECT_EQ(third.nodes()[0].block, "update");
  EXPECT_EQ(third.FindState("w")->info.axes, (LogicalAxes{"embed", "mlp"}));
}

TEST(SegmentTest, EmptyPartsAreLeftOutAndOneStaysWhole) {
  Graph graph = Parse(kGraph);
  ASSERT_OK_AND_ASSIGN(std::vector<Segment> parts,
                       CutIntoSegments(graph, {0, 2, 2, 5, 5, 5}));
  EXPECT_EQ(parts.size(), 3u);
  ASSERT_OK_AND_ASSIGN(std::vector<Segment> whole, CutIntoSegments(graph, {1, 1, 1, 1, 1, 1}));
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_THAT(Outputs(*whole[0].graph), ElementsAre("loss=loss", "again=z"));
  ASSERT_OK_AND_ASSIGN(std::vector<Segment> none, CutIntoSegments(Parse("graph e { }"), {}));
  EXPECT_TRUE(none.empty());
}

struct Refusal {
  const char* graph;
  std::vector<int> part_of;
  const char* message;
};

TEST(SegmentTest, Refusals) {
  const std::string w = R"(feed %x: f32[3]
    state %w: f32[3] {role=parameter, global=[3], disk=[3], axes=[embed], trainable} )";
  const Refusal refusals[] = {
      {"%a: f32[3] = tanh(%x) %b: f32[3] = tanh(%a)", {1, 0},
       "'a' is made in part 1 and read in part 0"},
      {"%a: f32[3] = tanh(%x)", {-1}, "start at 0"},
      {"%a: f32[3] = tanh(%w) %b: f32[3] = tanh(%w) update %w = %a", {0, 1},
       "state 'w' is updated in part 0 and read in part 1"},
      {"%a: f32[3] = tanh(%x) update %w = %x", {0},
       "the end value of state 'w' is not made by any node"},
      {"%a: f32[3] = tanh(%x) output o = %x", {0}, "output 'o' is not made by any node"},
      {"%a: f32[3] = tanh(%x) %b: f32[3] = tanh(%a) output a = %b", {0, 0},
       "output 'a' has the name of another value; it is 'b'"},
      {"%b: f32[3] = tanh(%x) output x = %b", {0}, "output 'x' has the name of another value"},
  };
  for (const Refusal& refusal : refusals) {
    Graph graph = Parse("graph g { " + w + refusal.graph + " }");
    EXPECT_THAT(CutIntoSegments(graph, refusal.part_of),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(refusal.message)));
  }
}

}  // namespace
}  // namespace colossus
