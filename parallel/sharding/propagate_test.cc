#include "parallel/sharding/propagate.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/graph/text.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/pointwise.h"

namespace colossus {
namespace {

Mesh TestMesh() {
  absl::StatusOr<Mesh> mesh =
      Mesh::Make({{"data", 2}, {"tensor", 2}, {"sequence", 2}, {"group", 2}, {"member", 3}});
  CHECK_OK(mesh.status());
  return *std::move(mesh);
}

// "d t, , s; p" : axes of each dim, "+" between several; axes of a pending sum after ';'.
Sharding ParseSharding(absl::string_view text) {
  Sharding sharding;
  const std::vector<std::string> parts = absl::StrSplit(text, ';');
  auto axes = [](absl::string_view list) {
    AxisNames names;
    for (absl::string_view axis : absl::StrSplit(list, '+', absl::SkipWhitespace())) {
      names.push_back(std::string(axis));
    }
    return names;
  };
  for (absl::string_view dim : absl::StrSplit(parts[0], ' ', absl::SkipEmpty())) {
    sharding.dims.push_back(dim == "-" ? AxisNames{} : axes(dim));
  }
  if (parts.size() > 1) {
    std::string partial = parts[1];
    partial.erase(0, partial.find_first_not_of(' '));
    sharding.partial = axes(partial);
  }
  return sharding;
}

struct Row {
  const char* what;
  const char* rule;
  std::vector<Dims> operands;
  std::vector<Dims> results;
  std::vector<const char*> lies;   // of operands; "state " before: a state
  std::vector<const char*> wants;  // of results; "": nothing; "gradient " before: of a parameter
  std::vector<const char*> reads;  // expected
  std::vector<const char*> makes;  // expected
};

void Check(const Row& row, const Op& op) {
  SCOPED_TRACE(row.what);
  const Mesh mesh = TestMesh();
  Types operands, results;
  for (const Dims& dims : row.operands) operands.push_back({DType::kF32, dims});
  for (const Dims& dims : row.results) results.push_back({DType::kF32, dims});
  ASSERT_OK_AND_ASSIGN(FactorRule rule, ParseFactorRule(row.rule));
  ASSERT_OK(rule.Bind(operands, results));
  Node node;
  node.op = &op;
  ShardRequest request;
  request.node = &node;
  request.rule = &rule;
  request.operand_types = operands;
  request.mesh = &mesh;
  for (absl::string_view text : row.lies) {
    request.states.push_back(absl::ConsumePrefix(&text, "state "));
    request.operands.push_back(ParseSharding(text));
  }
  for (absl::string_view text : row.wants) {
    const bool gradient = absl::ConsumePrefix(&text, "gradient ");
    request.results.emplace_back();
    if (!text.empty()) request.results.back() = Want{ParseSharding(text), true, gradient};
  }
  const NodeSharding sharding = ShardNode(request);
  for (size_t i = 0; i < row.reads.size(); ++i) {
    EXPECT_EQ(ToText(sharding.operands[i]), ToText(ParseSharding(row.reads[i]))) << "operand " << i;
  }
  for (size_t i = 0; i < row.makes.size(); ++i) {
    EXPECT_EQ(ToText(sharding.results[i]), ToText(ParseSharding(row.makes[i]))) << "result " << i;
  }
}

const Dims kX{4, 6, 8}, kW{8, 12}, kY{4, 6, 12};

// Protects: what tensor, sequence and data parallelism are, stated as factors.
TEST(PropagateTest, Products) {
  const Dims &x = kX, &w = kW, &y = kY;
  const char* rule = "b s c, c m -> b s m";
  const Row rows[] = {
      {"column parallel",
       rule,
       {x, w},
       {y},
       {"data - -", "state - tensor"},
       {""},
       {"data - -", "- tensor"},
       {"data - tensor"}},
      {"column parallel of split positions gathers them",
       rule,
       {x, w},
       {y},
       {"data tensor -", "state - tensor"},
       {""},
       {"data - -", "- tensor"},
       {"data - tensor"}},
      {"row parallel leaves a sum",
       rule,
       {x, w},
       {y},
       {"data - tensor", "state tensor -"},
       {"data tensor -"},
       {"data - tensor", "tensor -"},
       {"data - -; tensor"}},
      {"a parameter does not move for a wish",
       rule,
       {x, w},
       {y},
       {"- - -", "state - tensor"},
       {"- tensor -"},
       {"- - -", "- tensor"},
       {"- - tensor"}},
      {"heads exchanged for positions stay positions until the product is made",
       "b s c, c h d -> b s h d",
       {{4, 6, 8}, {8, 4, 3}},
       {{4, 6, 4, 3}},
       {"data sequence -", "state - tensor -"},
       {"data - tensor+sequence -"},
       {"data sequence -", "- tensor -"},
       {"data sequence tensor -"}},
  };
  for (const Row& row : rows) Check(row, MatmulOp());
}

TEST(PropagateTest, GradientsOfProducts) {
  const Dims &x = kX, &w = kW, &y = kY;
  const char* rule = "b s c, c m -> b s m";
  const Row rows[] = {
      {"a weight's gradient lies as the weight",
       "b s c, b s m -> c m",
       {x, y},
       {w},
       {"data tensor -", "data - tensor"},
       {"gradient - tensor"},
       {"data - -", "data - tensor"},
       {"- tensor; data"}},
      {"without a parameter what is large stays",
       "b s c, b s m -> c m",
       {y, x},
       {{12, 8}},
       {"data tensor -", "data - tensor"},
       {""},
       {"data tensor -", "data tensor -"},
       {"- -; data+tensor"}},
      {"what does not divide is not split",
       rule,
       {{3, 6, 8}, w},
       {{3, 6, 12}},
       {"- - -", "state - tensor"},
       {"data sequence -"},
       {"- sequence -", "- tensor"},
       {"- sequence tensor"}},
      {"a sum is finished before a product",
       rule,
       {x, w},
       {y},
       {"data - -; tensor", "- -"},
       {""},
       {"data - -", "- -"},
       {"data - -"}},
  };
  for (const Row& row : rows) Check(row, MatmulOp());
}

// Protects: pending sums pass through additions, and a wish turns a sum into a scattered one.
TEST(PropagateTest, Additions) {
  const Dims x{4, 6, 8}, bias{8};
  const Row rows[] = {
      {"sums of the same ranks are added",
       "d0 d1 d2, d0 d1 d2 -> d0 d1 d2",
       {x, x},
       {x},
       {"data - -; tensor", "data - -; tensor"},
       {"data tensor -"},
       {"data - -; tensor", "data - -; tensor"},
       {"data - -; tensor"}},
      {"common ones only",
       "d0 d1 d2, d0 d1 d2 -> d0 d1 d2",
       {x, x},
       {x},
       {"- - -; data+tensor", "- - -; tensor"},
       {""},
       {"- - -; tensor", "- - -; tensor"},
       {"- - -; tensor"}},
      {"a bias wants the sum, scattered where the result is wanted so",
       "d0 d1 d2, d2 -> d0 d1 d2",
       {x, bias},
       {x},
       {"data - -; tensor", "state -"},
       {"data tensor -"},
       {"data tensor -", "-"},
       {"data tensor -"}},
      {"the residual stream stays split",
       "d0 d1 d2, d0 d1 d2 -> d0 d1 d2",
       {x, x},
       {x},
       {"data tensor -", "data - -; tensor"},
       {"data tensor -"},
       {"data tensor -", "data tensor -"},
       {"data tensor -"}},
  };
  for (const Row& row : rows) Check(row, PointwiseOp("add"));
}

// Protects: grouped heads: a minor factor is split where the major one is split to single elements.
TEST(PropagateTest, GroupedHeads) {
  const Dims q{4, 6, 12, 5}, k{4, 6, 2, 5}, lse{4, 12, 6};
  const char* rule = "b s (g r) d, b s g d -> b s (g r) d, b (g r) s";
  const Row rows[] = {
      {"by group",
       rule,
       {q, k},
       {q, lse},
       {"data - tensor -", "data - tensor -"},
       {"", ""},
       {"data - tensor -", "data - tensor -"},
       {"data - tensor -", "data tensor -"}},
      {"beyond the groups",
       rule,
       {q, k},
       {q, lse},
       {"- - group+member -", "- - group -"},
       {"", ""},
       {"- - group+member -", "- - group -"},
       {"- - group+member -", "- group+member -"}},
      {"not across groups",
       "b s (g r) d, b s g d -> b s (g r) d",
       {{4, 6, 12, 5}, {4, 6, 4, 5}},
       {{4, 6, 12, 5}},
       {"- - group+member -", "- - group -"},
       {""},
       {"- - group -", "- - group -"},
       {"- - group -"}},
  };
  for (const Row& row : rows) Check(row, MatmulOp());
}

TEST(PropagateTest, WholeFactorsAreNotSplit) {
  Row row{"a norm",
          "b s c, c -> b s c, b s",
          {{4, 6, 8}, {8}},
          {{4, 6, 8}, {4, 6}},
          {"data tensor sequence", "sequence"},
          {"", ""},
          {"data tensor sequence", "sequence"},
          {"data tensor sequence", "data tensor; sequence"}};
  Check(row, MatmulOp());
}

// Protects: a head whose rows lie over an axis is multiplied by features that are whole along it.
TEST(PropagateTest, AnAxisSplitsOneExpandFactor) {
  ASSERT_OK_AND_ASSIGN(FactorRule rule, ParseFactorRule("s c, v c -> s v"));
  const Types operands = {{DType::kF32, {4, 8}}, {DType::kF32, {6, 8}}};
  const Types results = {{DType::kF32, {4, 6}}};
  ASSERT_OK(rule.Bind(operands, results));
  rule.Set("c", FactorKind::kExpand).Set("v", FactorKind::kExpand);
  const Mesh mesh = TestMesh();
  Node node;
  node.op = &MatmulOp();
  ShardRequest request{&node, &rule, operands, {}, {false, true}, {std::nullopt}, &mesh};
  request.operands = {ParseSharding("- tensor"), ParseSharding("tensor -")};
  const NodeSharding sharding = ShardNode(request);
  EXPECT_EQ(sharding.operands[0], ParseSharding("- -"));
  EXPECT_EQ(sharding.operands[1], ParseSharding("tensor -"));
  EXPECT_TRUE(sharding.expands);
}

// Protects: wishes reach through ops that keep the shape, and stop at others.
TEST(PropagateTest, Wishes) {
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(R"(graph g {
  feed %x: bf16[4,6,8]
  feed %w: bf16[8,8]
  feed %r: f32[4,6,8] sharded([data], [tensor], [])
  %a: bf16[4,6,8] = matmul(%x, %w) {spec="b s c, c m -> b s m"}
  %b: bf16[4,6,8] = gelu(%a)
  %c: f32[4,6,8] = convert(%b) {dtype="f32"}
  %d: f32[4,6,8] sharded([data], [tensor], []) = add(%r, %c)
  %g: f32[8,8] = matmul(%d, %d) {spec="b s c, b s m -> c m"}
  output dw = %g
})"));
  const std::vector<std::optional<Want>> wants =
      WantsOf(graph, {{"dw", ParseSharding("- tensor")}});
  auto want = [&](const char* name) { return wants[graph.FindValue(name)]; };
  EXPECT_FALSE(want("x"));
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_TRUE(want(name)) << name;
    EXPECT_FALSE(want(name)->pinned);
    EXPECT_EQ(ToText(want(name)->sharding), "sharded([data], [tensor], [])") << name;
  }
  EXPECT_TRUE(want("d")->pinned);
  EXPECT_FALSE(want("d")->gradient);
  EXPECT_TRUE(want("g")->gradient);
}

}  // namespace
}  // namespace colossus
