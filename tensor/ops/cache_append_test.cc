#include "tensor/ops/cache_append.h"

#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tensor/testing/run_op.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

// Batch entry 0 holds three rows of four, so that its second new row is dropped; entry 1 holds one.
TEST(CacheAppendTest, WritesBehindLength) {
  HostTensor cache = HostTensor::Of<float>({2, 4, 1, 1}, {2, 3, 4, 0, 1, 0, 0, 0});
  HostTensor rows = HostTensor::Of<float>({2, 2, 1, 1}, {7, 8, 5, 6});
  HostTensor length = HostTensor::Of<int32_t>({2}, {3, 1});
  HostTensor y = RunOp(CacheAppendOp(), {cache, rows, length}, {})[0];
  EXPECT_EQ(y.ToDoubles(), (std::vector<double>{2, 3, 4, 7, 1, 5, 6, 0}));
  ExpectAliasesHarmless(CacheAppendOp(), {cache, rows, length}, {});
  ExpectFlops(CacheAppendOp(), {cache, rows, length}, {});
}

TEST(CacheAppendTest, Factors) {
  Types types{{DType::kF32, {2, 4, 3, 5}}, {DType::kF32, {2, 1, 3, 5}}, {DType::kI32, {2}}};
  FactorRule rule = CacheAppendOp().Factors({types, Attributes{}});
  for (const char* label : {"t", "s"}) {
    EXPECT_EQ(rule.factors[rule.Find(label)].kind, FactorKind::kWhole) << label;
  }
  EXPECT_EQ(rule.factors[rule.Find("g")].kind, FactorKind::kParallel);
}

TEST(CacheAppendTest, Constraints) {
  Type cache{DType::kF32, {2, 4, 3, 5}}, rows{DType::kF32, {2, 1, 3, 5}}, length{DType::kI32, {2}};
  const struct {
    const char* constraint;
    Types operands;
    Attributes attributes;
  } refusals[] = {
      {"cache_append_c1", {cache, rows}, {}},
      {"cache_append_c1", {cache, {DType::kF32, {2, 1, 3, 4}}, length}, {}},
      {"cache_append_c1", {cache, {DType::kBF16, {2, 1, 3, 5}}, length}, {}},
      {"cache_append_c2", {cache, rows, {DType::kI64, {2}}}, {}},
      {"cache_append_c3", {cache, rows, length}, {{"dim", 1}}},
  };
  for (const auto& r : refusals) {
    EXPECT_THAT(InferOp(CacheAppendOp(), r.operands, r.attributes),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(r.constraint)));
  }
}

}  // namespace
}  // namespace colossus
