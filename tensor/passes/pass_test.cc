#include "tensor/passes/pass.h"

#include <cstdlib>
#include <string>

#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/graph/text.h"
#include "tensor/passes/common_subexpressions.h"
#include "tensor/passes/dead_code.h"

namespace colossus {

// Reaches into a graph to break it.
class GraphTestPeer {
 public:
  static void SwapOrder(Graph& g) { std::swap(g.nodes_.front(), g.nodes_.back()); }
};

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Case {
  const char* what;
  Pass pass;
  const char* before;  // statements
  const char* after;
};

class PassTextTest : public ::testing::TestWithParam<Case> {};

std::string GraphText(const std::string& body) {
  return "graph g {\n  feed %x: f32[2]\n  feed %y: f32[2]\n" + body + "}\n";
}

TEST_P(PassTextTest, MakesTheText) {
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(GraphText(GetParam().before)));
  ASSERT_OK_AND_ASSIGN(Rewritten result, GetParam().pass(graph));
  EXPECT_EQ(ToText(result.graph), GraphText(GetParam().after)) << GetParam().what;
}

INSTANTIATE_TEST_SUITE_P(
    Table, PassTextTest,
    ::testing::Values(
        Case{"an unread chain goes, a result of several read stays", DeadCode,
             R"(  %a: f32[2] = sin(%x)
  %b: f32[2] = cos(%a)
  %c: f32[2] = cos(%x)
  output c = %c
)",
             R"(  %c: f32[2] = cos(%x)
  output c = %c
)"},
        Case{"what a state ends in is live; states stay", DeadCode,
             R"(  state %m: f32[2] {role=buffer, global=[2], disk=[], axes=[]}
  state %n: f32[2] {role=buffer, global=[2], disk=[], axes=[]}
  %a: f32[2] = add(%m, %x)
  %b: f32[2] = cos(%n)
  update %m = %a
)",
             R"(  state %m: f32[2] {role=buffer, global=[2], disk=[], axes=[]}
  state %n: f32[2] {role=buffer, global=[2], disk=[], axes=[]}
  %a: f32[2] = add(%m, %x)
  update %m = %a
)"},
        Case{"equal chains merge into the first, across blocks", CommonSubexpressions,
             R"(  %a: f32[2] = sin(%x) @h.0
  %b: f32[2] = sin(%x) @h.1
  %c: f32[2] = add(%a, %y) @h.1
  %d: f32[2] = add(%b, %y)
  %e: f32[2] = add(%c, %d)
  output e = %e
)",
             R"(  %a: f32[2] = sin(%x) @h.0
  %c: f32[2] = add(%a, %y) @h.1
  %e: f32[2] = add(%c, %c)
  output e = %e
)"},
        Case{"other attributes, operands in other order, clones and annotations stay apart",
             CommonSubexpressions,
             R"(  %a: f32[2] = scale(%x) {factor=0x1p+1}
  %b: f32[2] = scale(%x) {factor=0x1p+2}
  %c: f32[2] = scale(%x) {factor=0x1p+1} clone=1
  %d: f32[2] tier(host) = scale(%x) {factor=0x1p+1}
  %e: f32[2] = sub(%x, %y)
  %f: f32[2] = sub(%y, %x)
)",
             R"(  %a: f32[2] = scale(%x) {factor=0x1p+1}
  %b: f32[2] = scale(%x) {factor=0x1p+2}
  %c: f32[2] = scale(%x) {factor=0x1p+1} clone=1
  %d: f32[2] tier(host) = scale(%x) {factor=0x1p+1}
  %e: f32[2] = sub(%x, %y)
  %f: f32[2] = sub(%y, %x)
)"}));

constexpr char kBody[] = R"(  %a: f32[2] = sin(%x)
  %b: f32[2] = sin(%x)
  %c: f32[2] = add(%a, %b)
  %d: f32[2] = cos(%x)
  output c = %c
)";

PassPipeline TwoPasses() {
  PassPipeline pipeline;
  pipeline.Add("common_subexpressions", CommonSubexpressions);
  pipeline.Add("dead_code", DeadCode);
  return pipeline;
}

TEST(PassPipelineTest, RunsReportsAndMaps) {
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(GraphText(kBody)));
  PassPipeline pipeline = TwoPasses();
  pipeline.Add("again", DeadCode);
  VirtualClock clock;
  ASSERT_OK_AND_ASSIGN(Rewritten result, pipeline.Run(graph, {.verify = true, .clock = &clock}));
  ASSERT_EQ(pipeline.reports().size(), 3);
  EXPECT_TRUE(pipeline.reports()[0].changed && pipeline.reports()[1].changed);
  EXPECT_FALSE(pipeline.reports()[2].changed);
  EXPECT_EQ(pipeline.reports()[2].seconds, 0);
  EXPECT_EQ(result.value_map[graph.FindValue("b")], result.graph.FindValue("a"));
  EXPECT_EQ(result.value_map[graph.FindValue("d")], kNoValue);
}

TEST(PassPipelineTest, SkipsByName) {
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(GraphText(kBody)));
  PassPipeline pipeline = TwoPasses();
  ASSERT_OK_AND_ASSIGN(Rewritten result,
                       pipeline.Run(graph, {.skip = {"common_subexpressions"}}));
  EXPECT_TRUE(pipeline.reports()[0].skipped);
  EXPECT_EQ(result.graph.nodes().size(), 3);
  EXPECT_THAT(pipeline.Run(graph, {.skip = {"dead_cod"}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no pass 'dead_cod'")));
}

TEST(PassPipelineTest, DumpsTheTextAfterEachPass) {
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(GraphText(kBody)));
  FileSystem& files = RealFileSystem();
  std::string folder = JoinPath(std::getenv("TEST_TMPDIR"), "dumps/deep");
  PassPipeline pipeline = TwoPasses();
  ASSERT_OK_AND_ASSIGN(Rewritten result,
                       pipeline.Run(graph, {.dump_folder = folder, .dump_prefix = "s0_"}));
  EXPECT_THAT(files.List(folder),
              IsOkAndHolds(ElementsAre("s0_00_input.txt", "s0_01_common_subexpressions.txt",
                                       "s0_02_dead_code.txt")));
  EXPECT_THAT(files.ReadFile(JoinPath(folder, "s0_00_input.txt")), IsOkAndHolds(ToText(graph)));
  EXPECT_THAT(files.ReadFile(JoinPath(folder, "s0_02_dead_code.txt")),
              IsOkAndHolds(ToText(result.graph)));
}

TEST(PassPipelineTest, NamesTheGuiltyPass) {
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(GraphText(kBody)));
  PassPipeline pipeline = TwoPasses();
  pipeline.Add("breaks", [](const Graph& g) {
    absl::StatusOr<Rewritten> result = DeadCode(g);
    GraphTestPeer::SwapOrder(result->graph);
    return result;
  });
  EXPECT_THAT(pipeline.Run(graph, {.verify = true}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("after pass breaks: graph_c")));
  pipeline.Add("fails", [](const Graph&) -> absl::StatusOr<Rewritten> {
    return absl::ResourceExhaustedError("too big");
  });
  EXPECT_THAT(pipeline.Run(graph, {.verify = false, .skip = {"breaks"}}),
              StatusIs(absl::StatusCode::kResourceExhausted, "pass fails: too big"));
}

}  // namespace
}  // namespace colossus
