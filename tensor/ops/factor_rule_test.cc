#include "tensor/ops/factor_rule.h"

#include <string>

#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;
constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

Type F32(Dims dims) { return {DType::kF32, std::move(dims)}; }

TEST(FactorRule, ParsesAndPrints) {
  for (const char* text : {"b s c, c (h d) -> b s h d", "b s c, c -> b s c", "a 1 b -> a b", " -> ",
                           "a b -> ", "x, , y -> x y, y"}) {
    ASSERT_OK_AND_ASSIGN(FactorRule rule, ParseFactorRule(text));
    EXPECT_EQ(rule.ToString(), text);
  }
  ASSERT_OK_AND_ASSIGN(FactorRule spaced, ParseFactorRule("a(b c)  ,c->a"));
  EXPECT_EQ(spaced.ToString(), "a (b c), c -> a");
}

TEST(FactorRule, RefusesWhatIsNoRule) {
  for (const char* text : {"a b", "a -> b -> c", "(a -> a", "a) -> a", "((a b)) -> a", "2a -> a",
                           "a-b -> a", "(1 a) -> a"}) {
    EXPECT_THAT(ParseFactorRule(text), StatusIs(kInvalid)) << text;
  }
}

TEST(FactorRule, LabelsInNoResultAreSums) {
  ASSERT_OK_AND_ASSIGN(FactorRule rule, ParseFactorRule("m k, k n -> m n"));
  EXPECT_EQ(rule.factors[rule.Find("k")].kind, FactorKind::kSum);
  EXPECT_EQ(rule.factors[rule.Find("m")].kind, FactorKind::kParallel);
  EXPECT_EQ(rule.Find("x"), -1);
  rule.Set("m", FactorKind::kIndexed);
  EXPECT_EQ(rule.factors[rule.Find("m")].kind, FactorKind::kIndexed);
  rule.AllWhole();
  for (const Factor& factor : rule.factors) EXPECT_EQ(factor.kind, FactorKind::kWhole);
}

TEST(FactorRule, BindsExtentsAcrossValues) {
  ASSERT_OK_AND_ASSIGN(FactorRule rule, ParseFactorRule("b s c, c (h d) -> b s h d"));
  // h d are known only from the result.
  ASSERT_OK(rule.Bind({F32({2, 3, 8}), F32({8, 20})}, {F32({2, 3, 4, 5})}));
  std::string extents;
  for (const Factor& f : rule.factors) extents += f.label + "=" + std::to_string(f.extent) + " ";
  EXPECT_EQ(extents, "b=2 s=3 c=8 h=4 d=5 ");
}

TEST(FactorRule, DerivesTheOneUnknownOfAGroup) {
  ASSERT_OK_AND_ASSIGN(FactorRule rule, ParseFactorRule("(g r) d, g d -> (g r)"));
  ASSERT_OK(rule.Bind({F32({6, 5}), F32({2, 5})}, {F32({6})}));
  EXPECT_EQ(rule.factors[rule.Find("r")].extent, 3);
}

TEST(FactorRule, RefusesTypesThatDoNotFit) {
  struct Row {
    const char* rule;
    Types operands, results;
    const char* message;
  };
  const Row rows[] = {
      {"m k, k n -> m n", {F32({2, 3}), F32({4, 5})}, {F32({2, 5})}, "operand 1 dim 0"},
      {"m k, k n -> m n", {F32({2, 3})}, {F32({2, 5})}, "has 2 operands, given 1"},
      {"m k -> m", {F32({2})}, {F32({2})}, "does not have the 2 dims"},
      {"a 1 -> a", {F32({2, 3})}, {F32({2})}, "operand 0 dim 1"},
      {"(g r), g -> r", {F32({7}), F32({2})}, {F32({3})}, "7"},
  };
  for (const Row& row : rows) {
    ASSERT_OK_AND_ASSIGN(FactorRule rule, ParseFactorRule(row.rule));
    EXPECT_THAT(rule.Bind(row.operands, row.results), StatusIs(kInvalid, HasSubstr(row.message)))
        << row.rule;
  }
}

TEST(FactorRule, PointwiseFollowsBroadcasting) {
  Types operands = {F32({2, 3, 5}), F32({3, 1}), {DType::kF32, {}}};
  FactorRule rule = PointwiseRule(operands, F32({2, 3, 5}));
  EXPECT_EQ(rule.ToString(), "d0 d1 d2, d1 1,  -> d0 d1 d2");
  EXPECT_OK(rule.Bind(operands, {F32({2, 3, 5})}));
}

TEST(FactorRule, WholeSplitsNothing) {
  Types types = {F32({2, 3})};
  FactorRule rule = WholeRule(types, types);
  EXPECT_OK(rule.Bind(types, types));
  for (const Factor& factor : rule.factors) EXPECT_EQ(factor.kind, FactorKind::kWhole);
}

}  // namespace
}  // namespace colossus
