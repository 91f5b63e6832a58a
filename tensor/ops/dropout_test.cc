#include "tensor/ops/dropout.h"

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/testing/run_op.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

HostTensor Ones(Dims dims) {
  HostTensor x(Type{DType::kF32, std::move(dims)});
  for (int64_t i = 0; i < x.type().elements(); ++i) x.Set(i, 1);
  return x;
}

HostTensor Key(int64_t seed, int64_t update) {
  return HostTensor::Of<int64_t>({2}, {seed, update});
}
HostTensor Row(int64_t row) { return HostTensor::Of<int64_t>({}, {row}); }

std::vector<double> Drop(const HostTensor& x, const HostTensor& key, int64_t first_row,
                         Attributes attributes = {}, absl::string_view site = "h.0.mlp") {
  attributes.Set("rate", 0.5);
  attributes.Set("site", site);
  return RunOp(DropoutOp(), {x, key, Row(first_row)}, attributes)[0].ToDoubles();
}

// Field case A6 on one rank: a [4,8] tensor of ones, rate 0.5, and its parts as ranks see them.
TEST(DropoutTest, A6PartsGiveTheBitsOfTheWhole) {
  std::vector<double> whole = Drop(Ones({4, 8}), Key(1, 7), 0);
  int kept = 0;
  for (double value : whole) {
    EXPECT_TRUE(value == 0 || value == 2) << value;
    kept += value != 0;
  }
  EXPECT_GT(kept, 4);
  EXPECT_LT(kept, 28);
  // Rows 2 and 3, as the second data-parallel rank or by origin.
  std::vector<double> rows(whole.begin() + 16, whole.end());
  EXPECT_EQ(Drop(Ones({2, 8}), Key(1, 7), 2), rows);
  EXPECT_EQ(Drop(Ones({2, 8}), Key(1, 7), 0, {{"origin", Ints{2, 0}}, {"global", Ints{4, 8}}}),
            rows);
  EXPECT_NE(Drop(Ones({2, 8}), Key(1, 7), 0), rows);
  // Columns 4 to 7.
  std::vector<double> columns =
      Drop(Ones({4, 4}), Key(1, 7), 0, {{"origin", Ints{0, 4}}, {"global", Ints{4, 8}}});
  for (int i = 0; i < 16; ++i) EXPECT_EQ(columns[i], whole[i / 4 * 8 + 4 + i % 4]) << i;
}

// Protects: positions of a row that lie in another order keep their masks.
TEST(DropoutTest, PositionsNameTheElement) {
  const std::vector<double> whole = Drop(Ones({2, 4, 5}), Key(1, 7), 3);
  const std::vector<int32_t> order = {2, 0, 3, 1, 1, 2, 3, 0};
  const Attributes attributes{{"rate", 0.5}, {"site", "h.0.mlp"}, {"with", Strings{"positions"}}};
  const HostTensor dealt = RunOp(
      DropoutOp(), {Ones({2, 4, 5}), Key(1, 7), Row(3), HostTensor::Of<int32_t>({2, 4}, order)},
      attributes)[0];
  for (int64_t i = 0; i < 40; ++i) {
    EXPECT_EQ(dealt.Get(i), whole[i / 20 * 20 + order[i / 5] * 5 + i % 5]) << i;
  }
}

// Masks are those of rows without the padding.
TEST(DropoutTest, RowsMayBePadded) {
  const std::vector<double> whole = Drop(Ones({2, 3, 5}), Key(1, 7), 6);
  Attributes attributes{{"rate", 0.5},
                        {"site", "h.0.mlp"},
                        {"global", Ints{2, 3, 5}},
                        {"with", Strings{"positions"}}};
  HostTensor positions(Type{DType::kI32, {2, 4}});
  for (int64_t i = 0; i < 8; ++i) positions.Set(i, i % 4);
  const HostTensor padded =
      RunOp(DropoutOp(), {Ones({2, 4, 5}), Key(1, 7), Row(6), positions}, attributes)[0];
  for (int64_t i = 0; i < 30; ++i) EXPECT_EQ(padded.Get(i / 15 * 20 + i % 15), whole[i]) << i;
}

TEST(DropoutTest, SeedUpdateAndSiteMatter) {
  std::vector<double> y = Drop(Ones({4, 16}), Key(1, 7), 0);
  EXPECT_EQ(y, Drop(Ones({4, 16}), Key(1, 7), 0));
  EXPECT_NE(y, Drop(Ones({4, 16}), Key(2, 7), 0));
  EXPECT_NE(y, Drop(Ones({4, 16}), Key(1, 8), 0));
  EXPECT_NE(y, Drop(Ones({4, 16}), Key(1, 7), 0, {}, "h.1.mlp"));
}

TEST(DropoutTest, GradientFlopsAliasesFactors) {
  std::mt19937_64 random(TestSeed());
  HostTensor x = RandomTensor(DType::kF64, {3, 4}, random);
  Attributes attributes{{"rate", 0.25}, {"site", "a"}};
  std::vector<HostTensor> operands{x, Key(1, 1), Row(5)};
  ExpectGradient(DropoutOp(), operands, attributes, {0});
  ExpectFlops(DropoutOp(), operands, attributes);
  ExpectAliasesHarmless(DropoutOp(), operands, attributes);
  Types types{x.type(), operands[1].type(), operands[2].type()};
  FactorRule rule = DropoutOp().Factors({types, attributes});
  EXPECT_EQ(rule.ToString(), "d0 d1, key,  -> d0 d1");
  EXPECT_EQ(rule.factors[rule.Find("d1")].kind, FactorKind::kIndexed);
  EXPECT_EQ(rule.factors[rule.Find("key")].kind, FactorKind::kWhole);
}

TEST(DropoutTest, Constraints) {
  Type x{DType::kF32, {4, 8}}, key{DType::kI64, {2}}, row{DType::kI64, {}};
  Attributes good{{"rate", 0.5}, {"site", "a"}};
  auto changed = [&](absl::string_view name, AttributeValue value) {
    Attributes attributes = good;
    attributes.Set(name, std::move(value));
    return attributes;
  };
  const struct {
    const char* constraint;
    Types operands;
    Attributes attributes;
  } refusals[] = {
      {"dropout_c1", {x, key}, good},
      {"dropout_c1", {{DType::kF32, {}}, key, row}, good},
      {"dropout_c2", {x, {DType::kI32, {2}}, row}, good},
      {"dropout_c2", {x, key, key}, good},
      {"dropout_c3", {x, key, row}, {{"rate", 0.5}}},
      {"dropout_c3", {x, key, row}, changed("site", "")},
      {"dropout_c4", {x, key, row}, changed("rate", 1.0)},
      {"dropout_c5", {x, key, row}, changed("origin", Ints{0})},
      {"dropout_c5", {x, key, row}, changed("origin", Ints{0, 1})},
      {"dropout_c5", {x, key, row}, changed("global", Ints{4, 7})},
      {"dropout_c1", {x, key, row, key}, good},
      {"dropout_c6", {x, key, row, {DType::kI32, {4, 8}}}, changed("with", Strings{"positions"})},
      {"dropout_c6",
       {{DType::kF32, {4, 8, 2}}, key, row, {DType::kI32, {4, 7}}},
       changed("with", Strings{"positions"})},
  };
  for (const auto& r : refusals) {
    EXPECT_THAT(InferOp(DropoutOp(), r.operands, r.attributes),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(r.constraint)));
  }
}

}  // namespace
}  // namespace colossus
