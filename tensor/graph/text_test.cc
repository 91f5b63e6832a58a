#include "tensor/graph/text.h"

#include <string>

#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

// One of everything the text can say.
constexpr char kGraph[] =
    R"(graph a/b-c.1 {
  feed %x: f32[4,3] sharded([data, row], []; [tensor]) tier(host)
  feed %0: i64[]
  state %w: f32[3,5] sharded([], [row]))"
    R"( {role=parameter, global=[3,10], disk=[10,3], axes=[embed, ""],)"
    R"( trainable, decayed, tied_to="9 lives", init=normal(0x1.47ae147ae147bp-6)}
  state %m: f32[3,5] tier(disk) {role=moment1, global=[3,5], disk=[], axes=[], init=constant(-inf)}
  state %n: i64[] {role=buffer, global=[], disk=[], axes=[]}
  %h.0/y: f32[4,5] = matmul(%x, %w) {spec="m k, k n -> m n"} @h.0
  %z: bf16[4,5] sharded([], []) tier(device))"
    R"( = convert(%h.0/y) {dtype="bf16"} @"a \"block\"\n" clone=3
  %m2: f32[3,5] = convert(%m) {dtype="f32"}
  update %m = %m2
  output z = %z
  output "0" = %0
}
)";

TEST(TextTest, PrintsWhatItParsed) {
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(kGraph));
  EXPECT_EQ(ToText(graph), kGraph);
  ASSERT_EQ(graph.nodes().size(), 3);
  EXPECT_EQ(graph.node(1).clone, 3);
  EXPECT_EQ(graph.node(1).block, "a \"block\"\n");
  const StateInfo& w = graph.FindState("w")->info;
  EXPECT_EQ(w.disk_dims, (Dims{10, 3}));
  EXPECT_EQ(w.axes, (LogicalAxes{"embed", ""}));
  EXPECT_TRUE(w.trainable && w.decayed);
  EXPECT_EQ(w.tied_to, "9 lives");
  EXPECT_EQ(w.init, Initializer::Normal(0.02));
  EXPECT_FALSE(graph.FindState("m")->info.trainable);
  EXPECT_EQ(graph.FindState("m")->info.role, Role::kMoment1);
}

TEST(TextTest, SpaceAndCommentsDoNotMatter) {
  std::string spaced;
  bool quoted = false;
  for (const char* c = kGraph; *c != '\0'; ++c) {
    spaced += *c;
    quoted ^= *c == '"' && c[-1] != '\\';
    if (!quoted && (*c == ',' || *c == '}')) spaced += "  # a comment, with \" and }\r\n\t";
  }
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(spaced));
  EXPECT_EQ(ToText(graph), kGraph);
}

struct BadText {
  const char* text;
  const char* message;
};

class BadTextTest : public ::testing::TestWithParam<BadText> {};

TEST_P(BadTextTest, ErrorNamesThePlace) {
  EXPECT_THAT(ParseGraph(GetParam().text),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadTextTest,
    ::testing::Values(
        BadText{"", "line 1, column 1: expected 'graph', found the end of the text"},
        BadText{"graph g {", "line 1, column 10: expected feed, state"},
        BadText{"graph g {}\n x", "line 2, column 2: expected the end of the text, found 'x'"},
        BadText{"graph g {\n  feed x: f32[]\n}", "line 2, column 8: expected a value"},
        BadText{"graph g {\n  feed %x: f33[]\n}", "line 2, column 12: "},
        BadText{"graph g {\n  feed %x: f32[-1]\n}", "line 2, column 16: an extent"},
        BadText{"graph g { feed %x: f32[0,99999999999,99999999999] }", "column 38: an extent"},
        BadText{"graph g { feed %x: f32[9999999999999999999] }", "column 24: expected an integer"},
        BadText{"graph g { feed %x: f32[] feed %x: f32[] }", "column 31: '%x' is defined already"},
        BadText{"graph g { feed %x: f32[2] sharded() }", "column 27: sharded() names 0 dims"},
        BadText{"graph g { feed %x: f32[2] tier(moon) }", "column 32: expected device, host"},
        BadText{"graph g { state %x: f32[2] {role=king} }", "column 34: unknown state role"},
        BadText{"graph g { state %x: f32[2] {size=3} }", "column 29: a state has no field 'size'"},
        BadText{"graph g { state %x: f32[] {init=normal(3)} }", "column 40: expected a float"},
        BadText{"graph g { output x = %x }", "column 22: '%x' is used before it is defined"},
        BadText{"graph g { feed %x: f32[] update %x = %x }", "'x' is not a state"},
        BadText{"graph g { feed %x: f32[] %y: f32[] = fly(%x) }",
                "column 38: there is no op 'fly'"},
        BadText{"graph g { feed %x: f32[] %y: f32[] = convert(%x) }",
                "column 38: convert: convert_c2"},
        BadText{"graph g { feed %x: f32[] %y: f32[] = convert(%x) {dtype=\"f16\"} }",
                "column 26: '%y' is written as f32[] but convert gives f16[]"},
        BadText{"graph g { feed %x: f32[] %y: f32[], %z: f32[] = convert(%x) {dtype=\"f32\"} }",
                "column 49: convert has 1 results, named 2"},
        BadText{"graph g { feed %x: f32[] %y: f32[], %y: f32[] = convert(%x) {dtype=\"f32\"} }",
                "column 37: '%y' is defined already"},
        BadText{"graph g { feed %x: f32[] %y: f32[] = convert(%x) {a=1, a=2} }",
                "column 56: attribute 'a' stands twice"},
        BadText{"graph g { feed %x: f32[] %y: f32[] = convert(%x) {a=[1, 0x1p+0]} }",
                "column 57: a list holds only"},
        BadText{"graph g { feed %x: f32[] %y: f32[] = convert(%x) {a=\"b} }",
                "a string without its closing quote"},
        BadText{"graph g { feed %x: f32[] %y: f32[] = convert(%x) {a=1e999} }", "not a number"},
        BadText{"graph g { feed %x: f32[] %y: f32[] = convert(%x) {a=1x} }", "not a number"},
        BadText{"graph g { feed %x: f32[] %y: f32[] = convert(%x) {a=[]} }", "expected i, f or s"},
        BadText{"graph g { $ }",
                "column 11: expected feed, state, update, output, a node or '}', "
                "found $"}));

TEST(TextTest, StateMayBeUpdatedOnce) {
  EXPECT_THAT(ParseGraph("graph g { state %m: f32[] {role=buffer} feed %x: f32[] "
                         "update %m = %x update %m = %x }"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'%m' is updated twice")));
}

}  // namespace
}  // namespace colossus
