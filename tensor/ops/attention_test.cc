#include "tensor/ops/attention.h"

#include <cmath>
#include <limits>

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "tensor/testing/run_op.h"

namespace colossus {
namespace {

HostTensor Ints32(Dims dims, const std::vector<int32_t>& values) {
  return HostTensor::Of<int32_t>(std::move(dims), values);
}

// Visible keys of each query: q and k are zero, so all visible keys have the same probability, and
// v is the identity, so that out[i][j] tells the probability of key j.
std::vector<std::vector<int64_t>> VisibleKeys(int64_t s, int64_t t, Attributes attributes,
                                              const std::vector<HostTensor>& optional = {}) {
  HostTensor q(Type{DType::kF64, {1, s, 1, 1}}), k(Type{DType::kF64, {1, t, 1, 1}});
  HostTensor v(Type{DType::kF64, {1, t, 1, t}});
  for (int64_t j = 0; j < t; ++j) v.Set(j * t + j, 1);
  attributes.Set("scale", 1.0);
  std::vector<HostTensor> operands{q, k, v};
  operands.insert(operands.end(), optional.begin(), optional.end());
  HostTensor out = RunOp(AttentionOp(), operands, attributes)[0];
  std::vector<std::vector<int64_t>> visible(s);
  for (int64_t i = 0; i < s; ++i) {
    for (int64_t j = 0; j < t; ++j) {
      if (out.Get(i * t + j) != 0) visible[i].push_back(j);
    }
  }
  return visible;
}

std::vector<size_t> Counts(const std::vector<std::vector<int64_t>>& visible) {
  std::vector<size_t> counts;
  for (const auto& keys : visible) counts.push_back(keys.size());
  return counts;
}

// Field case G6: visible keys with a window, and with none.
TEST(AttentionTest, G6WindowVisibility) {
  auto visible = VisibleKeys(6, 6, {{"causal", true}, {"window", 3}});
  EXPECT_EQ(Counts(visible), (std::vector<size_t>{1, 2, 3, 3, 3, 3}));
  EXPECT_EQ(visible[5], (std::vector<int64_t>{3, 4, 5}));
  for (const Attributes& none : {Attributes{{"causal", true}, {"window", 0}},
                                 Attributes{{"causal", true}}}) {
    EXPECT_EQ(Counts(VisibleKeys(6, 6, none)), (std::vector<size_t>{1, 2, 3, 4, 5, 6}));
  }
}

// Field case A12: documents of 3 and 5 tokens in a row of 8 have 21 visible pairs.
TEST(AttentionTest, A12PackedDocumentPairs) {
  HostTensor segments = Ints32({1, 8}, {0, 0, 0, 1, 1, 1, 1, 1});
  HostTensor positions = Ints32({1, 8}, {0, 1, 2, 0, 1, 2, 3, 4});
  Strings with{"q_segments", "k_segments", "q_positions", "k_positions"};
  auto visible = VisibleKeys(8, 8, {{"causal", true}, {"with", with}},
                             {segments, segments, positions, positions});
  size_t pairs = 0;
  for (size_t count : Counts(visible)) pairs += count;
  EXPECT_EQ(pairs, 21u);
  EXPECT_EQ(visible[3], (std::vector<int64_t>{3}));
  EXPECT_EQ(visible[7], (std::vector<int64_t>{3, 4, 5, 6, 7}));
}

TEST(AttentionTest, KvLengthLimitsKeys) {
  auto visible = VisibleKeys(1, 5, {{"with", Strings{"kv_length"}}}, {Ints32({1}, {3})});
  EXPECT_EQ(visible[0], (std::vector<int64_t>{0, 1, 2}));
  // A cache of 5 that holds 4; the queries are tokens 2 and 3.
  visible = VisibleKeys(2, 5, {{"causal", true}, {"with", Strings{"q_positions", "kv_length"}}},
                        {Ints32({1, 2}, {2, 3}), Ints32({1}, {4})});
  EXPECT_EQ(Counts(visible), (std::vector<size_t>{3, 4}));
}

TEST(AttentionTest, QueryWithoutVisibleKey) {
  HostTensor q = HostTensor::Of<float>({1, 1, 1, 1}, {1}), k = q, v = q;
  std::vector<HostTensor> y =
      RunOp(AttentionOp(), {q, k, v, Ints32({1, 1}, {0}), Ints32({1, 1}, {1})},
            {{"scale", 1.0}, {"with", Strings{"q_segments", "k_segments"}}});
  EXPECT_EQ(y[0].Get(0), 0);
  EXPECT_EQ(y[1].Get(0), -std::numeric_limits<double>::infinity());
  std::vector<HostTensor> dx = RunOp(
      AttentionGradOp(), {q, q, k, v, y[0], y[1], Ints32({1, 1}, {0}), Ints32({1, 1}, {1})},
      {{"scale", 1.0}, {"with", Strings{"q_segments", "k_segments"}}});
  for (const HostTensor& d : dx) EXPECT_EQ(d.Get(0), 0);
}

// Scores 0.5*2*1 = 1 and 0.5*2*3 = 3.
TEST(AttentionTest, ValuesByHand) {
  HostTensor q = HostTensor::Of<double>({1, 1, 1, 1}, {2});
  HostTensor k = HostTensor::Of<double>({1, 2, 1, 1}, {1, 3});
  HostTensor v = HostTensor::Of<double>({1, 2, 1, 2}, {1, 10, 2, 20});
  std::vector<HostTensor> y = RunOp(AttentionOp(), {q, k, v}, {{"scale", 0.5}});
  double sum = std::exp(1) + std::exp(3), p = std::exp(3) / sum;
  EXPECT_NEAR(y[0].Get(0), 1 + p, 1e-14);
  EXPECT_NEAR(y[0].Get(1), 10 + 10 * p, 1e-13);
  EXPECT_NEAR(y[1].Get(0), std::log(sum), 1e-14);

  y = RunOp(AttentionOp(), {q, k, v}, {{"scale", 0.5}, {"softcap", 2.0}});
  EXPECT_NEAR(y[1].Get(0), std::log(std::exp(2 * std::tanh(0.5)) + std::exp(2 * std::tanh(1.5))),
              1e-14);
}

// Field case G7: slopes shift the logits by slope * (pk - pq), bias after them.
TEST(AttentionTest, G7SlopesShiftLogits) {
  HostTensor q(Type{DType::kF64, {1, 2, 2, 1}}), k = q;
  HostTensor slopes = HostTensor::Of<float>({2}, {0.25f, 0.5f});
  HostTensor positions = Ints32({1, 2}, {10, 13});
  std::vector<HostTensor> y =
      RunOp(AttentionOp(), {q, k, q, positions, positions, slopes},
            {{"scale", 1.0},
             {"causal", true},
             {"with", Strings{"q_positions", "k_positions", "slopes"}}});
  std::vector<double> expected{0, std::log(std::exp(-0.75) + 1), 0, std::log(std::exp(-1.5) + 1)};
  EXPECT_TRUE(TensorNear(y[1].ToDoubles(), expected, {.absolute = 1e-14}));

  HostTensor bias = HostTensor::Of<double>({2, 2, 2}, {1, 1, 1, 1, 2, 2, 2, 2});
  y = RunOp(AttentionOp(), {q, k, q, bias}, {{"scale", 1.0}, {"with", Strings{"bias"}}});
  expected = {1 + std::log(2), 1 + std::log(2), 2 + std::log(2), 2 + std::log(2)};
  EXPECT_TRUE(TensorNear(y[1].ToDoubles(), expected, {.absolute = 1e-14}));
}

// Heads 0, 1 read group 0; heads 2, 3 group 1.
TEST(AttentionTest, GroupedHeads) {
  HostTensor q(Type{DType::kF64, {1, 1, 4, 1}});
  HostTensor k(Type{DType::kF64, {1, 1, 2, 1}});
  HostTensor v = HostTensor::Of<double>({1, 1, 2, 1}, {5, 7});
  HostTensor out = RunOp(AttentionOp(), {q, k, v}, {{"scale", 1.0}})[0];
  EXPECT_EQ(out.ToDoubles(), (std::vector<double>{5, 5, 7, 7}));
}

// Dropout does not depend on how batch, heads, queries and keys are cut.
TEST(AttentionTest, DropoutOfParts) {
  std::mt19937_64 random(TestSeed());
  HostTensor q = RandomTensor(DType::kF64, {1, 2, 2, 3}, random);
  HostTensor k = RandomTensor(DType::kF64, {1, 4, 2, 3}, random), v = k;
  HostTensor key = HostTensor::Of<int64_t>({2}, {3, 5}), row0 = HostTensor::Of<int64_t>({}, {4});
  Attributes attributes{{"scale", 1.0},
                        {"dropout_rate", 0.5},
                        {"site", "h.0.attention"},
                        {"with", Strings{"dropout_key", "first_row"}}};
  HostTensor whole = RunOp(AttentionOp(), {q, k, v, key, row0}, attributes)[0];
  EXPECT_NE(whole.ToDoubles(),
            RunOp(AttentionOp(), {q, k, v}, {{"scale", 1.0}})[0].ToDoubles());
  // Query 1, head 1, as a part of its own.
  auto part = [&](const HostTensor& x, int64_t first, int64_t stride, int64_t count) {
    HostTensor y(Type{DType::kF64, {1, count, 1, 3}});
    for (int64_t i = 0; i < 3 * count; ++i) y.Set(i, x.Get(first + i / 3 * stride + i % 3));
    return y;
  };
  attributes.Set("origin", Ints{0, 1, 1, 0});
  attributes.Set("global", Ints{1, 2, 2, 3});
  HostTensor out = RunOp(AttentionOp(), {part(q, 9, 6, 1), part(k, 3, 6, 4), part(v, 3, 6, 4), key,
                                         row0}, attributes)[0];
  for (int64_t e = 0; e < 3; ++e) EXPECT_DOUBLE_EQ(out.Get(e), whole.Get(9 + e));
}

}  // namespace
}  // namespace colossus
