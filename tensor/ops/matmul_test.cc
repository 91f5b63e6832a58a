#include "tensor/ops/matmul.h"

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/reference/interpreter.h"
#include "tensor/ops/convert.h"

namespace colossus {
namespace {

// Matmul of two tensors in a graph of its own.
absl::StatusOr<HostTensor> Product(absl::string_view spec, const HostTensor& a, const HostTensor& b,
                                   std::optional<DType> result = std::nullopt) {
  GraphBuilder builder("product");
  ValueId y =
      Matmul(builder, spec, builder.Feed("a", a.type()), builder.Feed("b", b.type()), result);
  builder.Output("y", y);
  absl::StatusOr<Graph> graph = std::move(builder).Build();
  if (!graph.ok()) return graph.status();
  absl::StatusOr<HostTensors> out = Interpret(*graph, {{"a", a}, {"b", b}});
  if (!out.ok()) return out.status();
  return out->at("y");
}

TEST(Matmul, ValuesByHand) {
  HostTensor a = HostTensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  HostTensor b = HostTensor::Of<float>({3, 2}, {7, 8, 9, 10, 11, 12});
  ASSERT_OK_AND_ASSIGN(HostTensor y, Product("m k, k n -> m n", a, b));
  EXPECT_EQ(y.ToDoubles(), (std::vector<double>{58, 64, 139, 154}));
  ASSERT_OK_AND_ASSIGN(HostTensor turned, Product("m k, k n -> n m", a, b));
  EXPECT_EQ(turned.ToDoubles(), (std::vector<double>{58, 139, 64, 154}));
  ASSERT_OK_AND_ASSIGN(HostTensor dot, Product("m k, m k -> ", a, a));
  EXPECT_EQ(dot.type(), (Type{DType::kF32, {}}));
  EXPECT_EQ(dot.Get(0), 91);
}

TEST(Matmul, LabelsCarryHeads) {
  HostTensor x(Type{DType::kF64, {1, 2, 2}}), w(Type{DType::kF64, {2, 3, 1, 2}});
  for (int i = 0; i < 4; ++i) x.Set(i, i + 1);
  for (int i = 0; i < 12; ++i) w.Set(i, i);
  ASSERT_OK_AND_ASSIGN(HostTensor y, Product("b s c, c k h d -> b s k h d", x, w));
  EXPECT_EQ(y.type().dims, (Dims{1, 2, 3, 1, 2}));
  // y[0, s, k, 0, d] = x[s, 0] w[0, k, d] + x[s, 1] w[1, k, d].
  EXPECT_EQ(y.Get(1 * 6 + 2 * 2 + 1), 3 * 5 + 4 * 11);
}

// 2^-9 is lost beside 1 in bf16, not in the sum.
TEST(Matmul, AccumulatesWideAndRoundsOnce) {
  HostTensor a(Type{DType::kBF16, {9}}), b(Type{DType::kBF16, {9}});
  for (int i = 0; i < 9; ++i) {
    a.Set(i, i == 0 ? 1 : 0x1p-9);
    b.Set(i, 1);
  }
  ASSERT_OK_AND_ASSIGN(HostTensor narrow, Product("k, k -> ", a, b));
  EXPECT_EQ(narrow.Get(0), 1 + 0x1p-6);
  ASSERT_OK_AND_ASSIGN(HostTensor wide, Product("k, k -> ", a, b, DType::kF32));
  EXPECT_EQ(wide.type().dtype, DType::kF32);
}

TEST(Matmul, AnEmptySumIsZero) {
  HostTensor a(Type{DType::kF32, {2, 0}}), b(Type{DType::kF32, {0, 3}});
  ASSERT_OK_AND_ASSIGN(HostTensor y, Product("m k, k n -> m n", a, b));
  EXPECT_EQ(y.ToDoubles(), std::vector<double>(6, 0.0));
}

// Nearest even, towards zero to integers, and to the ends of their range.
TEST(Convert, RoundsAndTruncates) {
  struct Row {
    double value;
    DType from, to;
    double expected;
  };
  const Row rows[] = {
      {1 + 0x1p-8, DType::kF32, DType::kBF16, 1},                   // a tie, to even
      {1 + 3 * 0x1p-8, DType::kF32, DType::kBF16, 1 + 4 * 0x1p-8},  // a tie, to even
      {70000, DType::kF32, DType::kF16, std::numeric_limits<double>::infinity()},
      {-2.9, DType::kF32, DType::kI32, -2},
      {2.9, DType::kF64, DType::kI64, 2},
      {1e12, DType::kF64, DType::kI32, 2147483647},
      {0.1, DType::kF32, DType::kBool, 1},
      {0, DType::kF32, DType::kBool, 0},
      {1, DType::kBool, DType::kF16, 1},
      {9007199254740992, DType::kI64, DType::kF64, 9007199254740992},
  };
  for (const Row& row : rows) {
    GraphBuilder b("convert");
    ValueId x = b.Feed("x", {row.from, {1}});
    b.Output("y", Convert(b, x, row.to));
    ASSERT_OK_AND_ASSIGN(Graph graph, std::move(b).Build());
    HostTensor input(Type{row.from, {1}});
    input.Set(0, row.value);
    ASSERT_OK_AND_ASSIGN(HostTensors out, Interpret(graph, {{"x", input}}));
    EXPECT_EQ(out.at("y").Get(0), row.expected) << row.value << " to " << Name(row.to);
  }
}

TEST(Convert, ToTheSameTypeIsTheValueItself) {
  GraphBuilder b("convert");
  ValueId x = b.Feed("x", {DType::kF32, {1}});
  EXPECT_EQ(Convert(b, x, DType::kF32), x);
  EXPECT_EQ(Convert(b, kNoValue, DType::kF32), kNoValue);
}

}  // namespace
}  // namespace colossus
