#include "parallel/sharding/rules.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/graph/text.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

Mesh MakeMesh(std::vector<MeshAxis> axes) {
  absl::StatusOr<Mesh> mesh = Mesh::Make(std::move(axes));
  CHECK_OK(mesh.status());
  return *std::move(mesh);
}

Graph Example() {
  absl::StatusOr<Graph> graph = ParseGraph(R"(graph g {
  feed %ids: i32[4,6] sharded([batch], [seq])
  feed %scale: f32[]
  state %h.0.w: f32[8,12] {role=parameter, global=[8,12], disk=[8,12], axes=[embed, mlp], trainable}
  state %h.0.b: f32[12] {role=parameter, global=[12], disk=[12], axes=[mlp], trainable}
  state %k: f32[4,8] {role=cache, global=[4,8], disk=[4,8], axes=[batch, mlp]}
  %y: f32[4,8] sharded([batch], [odd]) = mul(%k, %scale)
  output y = %y
})");
  CHECK_OK(graph.status());
  return *std::move(graph);
}

std::string ShardingOf(const Graph& graph, const char* name) {
  const std::optional<Sharding>& sharding = graph.value(graph.FindValue(name)).sharding;
  return sharding ? ToText(*sharding) : "";
}

ShardingRules ExampleRules() {
  ShardingRules rules;
  rules.parameters = {{"mlp", {"tensor"}}, {"batch", {"tensor"}}};
  rules.activations = {{"batch", {"data"}}, {"seq", {"sequence"}}, {"odd", {"data", "tensor"}}};
  return rules;
}

TEST(RulesTest, NamesBecomeAxes) {
  const Mesh mesh = MakeMesh({{"data", 2}, {"tensor", 4}, {"sequence", 1}});
  ASSERT_OK_AND_ASSIGN(Graph graph, AnnotateShardings(Example(), ExampleRules(), mesh));
  EXPECT_EQ(ShardingOf(graph, "ids"), "sharded([data], [])");
  EXPECT_EQ(ShardingOf(graph, "scale"), "sharded()");
  EXPECT_EQ(ShardingOf(graph, "h.0.w"), "sharded([], [tensor])");
  EXPECT_EQ(ShardingOf(graph, "h.0.b"), "sharded([tensor])");
  // A cache is an activation that stays.
  EXPECT_EQ(ShardingOf(graph, "k"), "sharded([data], [])");
}

TEST(RulesTest, ActivationsHaveTheAxesThatDivide) {
  ShardingRules rules = ExampleRules();
  rules.activations["batch"] = {};
  ASSERT_OK_AND_ASSIGN(Graph graph,
                       AnnotateShardings(Example(), rules, MakeMesh({{"data", 2}, {"tensor", 3}})));
  EXPECT_EQ(ShardingOf(graph, "y"), "sharded([], [data])");
}

TEST(RulesTest, OverridesByPattern) {
  ShardingRules rules = ExampleRules();
  rules.overrides = {{"h.*.w", {{"tensor"}}}, {"h.*", {}}};
  ASSERT_OK_AND_ASSIGN(Graph graph, AnnotateShardings(Example(), rules, MakeMesh({{"tensor", 2}})));
  EXPECT_EQ(ShardingOf(graph, "h.0.w"), "sharded([tensor], [])");
  EXPECT_EQ(ShardingOf(graph, "h.0.b"), "sharded([])");
}

TEST(RulesTest, Refuses) {
  const struct {
    const char* message;
    std::vector<MeshAxis> mesh;
    std::vector<ShardingOverride> overrides;
  } rows[] = {
      {"'h.0.w' of [8,12] cannot be split into 5 parts (tensor=5) along dim 1 of extent 12",
       {{"tensor", 5}},
       {}},
      {"feed 'ids' of [4,6] cannot be split into 3 parts (data=3) along dim 0", {{"data", 3}}, {}},
      {"override 'h.1.*' matches no state", {{"tensor", 2}}, {{"h.1.*", {}}}},
      {"override 'h.0.w' names axis 'tensr'; the mesh has tensor",
       {{"tensor", 2}},
       {{"h.0.w", {{"tensr"}}}}},
      {"override 'h.0.b' has 2 dims; 'h.0.b' is [12]", {{"tensor", 2}}, {{"h.0.b", {{}, {}}}}},
      {"'h.0.w' is split over tensor along dims 0 and 1",
       {{"tensor", 2}},
       {{"h.0.w", {{"tensor"}, {"tensor"}}}}},
  };
  for (const auto& row : rows) {
    ShardingRules rules = ExampleRules();
    rules.overrides = row.overrides;
    EXPECT_THAT(AnnotateShardings(Example(), rules, MakeMesh(row.mesh)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(row.message)));
  }
}

TEST(RulesTest, Patterns) {
  for (const char* pattern : {"a.b.c", "*", "a*", "*c", "a.*.c", "a.?.c", "*.*", "***", "a.b.c*"}) {
    EXPECT_TRUE(MatchesPattern(pattern, "a.b.c")) << pattern;
  }
  for (const char* pattern : {"", "a.b", "b*", "*b", "a.?c", "a.b.c?", "*d*"}) {
    EXPECT_FALSE(MatchesPattern(pattern, "a.b.c")) << pattern;
  }
}

}  // namespace
}  // namespace colossus
