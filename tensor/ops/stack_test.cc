#include "tensor/ops/stack.h"

#include <random>
#include <vector>

#include "absl/status/status.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/testing/run_op.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

// Protects: which element goes where, for the first, a middle and the last dim, and one part.
TEST(StackTest, Elements) {
  const HostTensor x = HostTensor::Of<float>({2, 3}, {0, 1, 2, 3, 4, 5});
  std::vector<HostTensor> rows = RunOp(UnstackOp(), {x}, {{"dim", 0}});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_TRUE(rows[1] == HostTensor::Of<float>({3}, {3, 4, 5}));
  std::vector<HostTensor> columns = RunOp(UnstackOp(), {x}, {{"dim", 1}});
  ASSERT_EQ(columns.size(), 3u);
  EXPECT_TRUE(columns[1] == HostTensor::Of<float>({2}, {1, 4}));
  EXPECT_TRUE(RunOp(StackOp(), rows, {{"dim", 0}})[0] == x);
  EXPECT_TRUE(RunOp(StackOp(), columns, {{"dim", 1}})[0] == x);
  EXPECT_TRUE(RunOp(StackOp(), {x}, {{"dim", 2}})[0] ==
              HostTensor::Of<float>({2, 3, 1}, {0, 1, 2, 3, 4, 5}));
}

// Protects: each is the other's inverse to the bit, for every dtype and dim.
TEST(StackTest, RoundTrip) {
  std::mt19937_64 random(TestSeed());
  for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    const HostTensor x = RandomTensor(dtype, {3, 4, 5}, random);
    for (int dim = 0; dim < 3; ++dim) {
      const Attributes attributes{{"dim", dim}};
      EXPECT_TRUE(RunOp(StackOp(), RunOp(UnstackOp(), {x}, attributes), attributes)[0] == x) << dim;
    }
  }
}

// Protects: gradients, and that a part without a cotangent gives zeros.
TEST(StackTest, Gradients) {
  std::mt19937_64 random(TestSeed());
  const HostTensor x = RandomTensor(DType::kF64, {3, 2, 4}, random);
  const HostTensor y = RandomTensor(DType::kF64, {2, 4}, random);
  for (int dim = 0; dim < 3; ++dim) {
    ExpectGradient(UnstackOp(), {x}, {{"dim", dim}}, {0});
    ExpectGradient(StackOp(), {y, y}, {{"dim", dim}}, {0, 1});
  }
  ExpectFlops(UnstackOp(), {x}, {{"dim", 1}});
  ExpectFlops(StackOp(), {y, y}, {{"dim", 1}});
}

// Protects: the stacked dim is whole, since a part is one index of it; all others may be split.
TEST(StackTest, Factors) {
  const Type large{DType::kF32, {2, 3, 4}}, part{DType::kF32, {2, 4}};
  const FactorRule unstack = UnstackOp().Factors({{large}, {{"dim", 1}}});
  const FactorRule stack = StackOp().Factors({{part, part, part}, {{"dim", 1}}});
  for (const FactorRule* rule : {&unstack, &stack}) {
    ASSERT_EQ(rule->factors.size(), 3u);
    for (int d = 0; d < 3; ++d) {
      EXPECT_EQ(rule->factors[d].kind, d == 1 ? FactorKind::kWhole : FactorKind::kParallel) << d;
      EXPECT_EQ(rule->factors[d].extent, large.dims[d]) << d;
    }
  }
  EXPECT_EQ(unstack.results.size(), 3u);
  EXPECT_EQ(stack.operands.size(), 3u);
}

TEST(StackTest, Constraints) {
  const Type x{DType::kF32, {2, 3}}, many{DType::kF32, {17}}, none{DType::kF32, {0, 2}};
  const struct {
    const char* constraint;
    const Op& op;
    Types operands;
    Attributes attributes;
  } refusals[] = {
      {"unstack_c1", UnstackOp(), {x, x}, {{"dim", 0}}},
      {"unstack_c1", UnstackOp(), {}, {{"dim", 0}}},
      {"unstack_c2", UnstackOp(), {x}, {}},
      {"unstack_c2", UnstackOp(), {x}, {{"dim", 2}}},
      {"unstack_c2", UnstackOp(), {x}, {{"dim", -1}}},
      {"unstack_c2", UnstackOp(), {x}, {{"dim", 0.5}}},
      {"unstack_c2", UnstackOp(), {{DType::kF32, {}}}, {{"dim", 0}}},
      {"unstack_c3", UnstackOp(), {many}, {{"dim", 0}}},
      {"unstack_c3", UnstackOp(), {none}, {{"dim", 0}}},
      {"unstack_c4", UnstackOp(), {x}, {{"dim", 0}, {"axis", 0}}},
      {"stack_c1", StackOp(), {}, {{"dim", 0}}},
      {"stack_c1", StackOp(), Types(17, x), {{"dim", 0}}},
      {"stack_c2", StackOp(), {x, many}, {{"dim", 0}}},
      {"stack_c2", StackOp(), {x, {DType::kBF16, {2, 3}}}, {{"dim", 0}}},
      {"stack_c3", StackOp(), {x, x}, {}},
      {"stack_c3", StackOp(), {x, x}, {{"dim", 3}}},
      {"stack_c3", StackOp(), {x, x}, {{"dim", -1}}},
      {"stack_c4", StackOp(), {x, x}, {{"dim", 0}, {"axis", 0}}},
  };
  for (const auto& r : refusals) {
    EXPECT_THAT(InferOp(r.op, r.operands, r.attributes),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(r.constraint)));
  }
}

}  // namespace
}  // namespace colossus
