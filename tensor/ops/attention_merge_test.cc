#include "tensor/ops/attention_merge.h"

#include <limits>
#include <random>
#include <vector>

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "tensor/ops/attention.h"
#include "tensor/testing/run_op.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// The keys [begin, end) of x[b t g d].
HostTensor Keys(const HostTensor& x, int64_t begin, int64_t end) {
  const Dims& dims = x.type().dims;
  const int64_t row = dims[2] * dims[3], count = (end - begin) * row;
  HostTensor part(Type{x.type().dtype, {dims[0], end - begin, dims[2], dims[3]}});
  for (int64_t i = 0; i < dims[0] * count; ++i) {
    part.Set(i, x.Get(i / count * dims[1] * row + begin * row + i % count));
  }
  return part;
}

// Protects: two sets of keys merged are attention over both, also where a query sees none of one.
TEST(AttentionMergeTest, TwoSetsOfKeys) {
  std::mt19937_64 random(TestSeed());
  const HostTensor q = RandomTensor(DType::kF64, {2, 6, 4, 3}, random);
  const HostTensor k = RandomTensor(DType::kF64, {2, 6, 2, 3}, random);
  const HostTensor v = RandomTensor(DType::kF64, {2, 6, 2, 5}, random);
  const Attributes whole{{"scale", 0.7}, {"causal", true}};
  auto part = [&](int64_t begin, int64_t end) {
    Attributes attributes = whole;
    attributes.Set("key_origin", begin);
    attributes.Set("key_global", 6);
    return RunOp(AttentionOp(), {q, Keys(k, begin, end), Keys(v, begin, end)}, attributes);
  };
  const std::vector<HostTensor> expected = RunOp(AttentionOp(), {q, k, v}, whole);
  const std::vector<HostTensor> a = part(0, 2), b = part(2, 6);
  for (const auto& [first, second] : {std::pair{a, b}, std::pair{b, a}}) {
    const std::vector<HostTensor> y =
        RunOp(AttentionMergeOp(), {first[0], first[1], second[0], second[1]}, {});
    for (int r : {0, 1}) {
      EXPECT_TRUE(
          TensorNear(y[r].ToDoubles(), expected[r].ToDoubles(), {.relative_to_max = 1e-14}));
    }
  }
}

TEST(AttentionMergeTest, NoKeyAtAll) {
  HostTensor out(Type{DType::kF32, {1, 2, 1, 2}}), lse(Type{DType::kF32, {1, 1, 2}});
  for (int64_t i : {0, 1}) lse.Set(i, kMinusInfinity);
  const std::vector<HostTensor> y = RunOp(AttentionMergeOp(), {out, lse, out, lse}, {});
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(y[0].Get(i), 0);
  for (int64_t i : {0, 1}) EXPECT_EQ(y[1].Get(i), kMinusInfinity);
}

TEST(AttentionMergeTest, Constraints) {
  const Type out{DType::kF32, {1, 2, 3, 4}}, lse{DType::kF32, {1, 3, 2}};
  const Type narrow{DType::kBF16, {1, 2, 3, 4}}, other{DType::kF32, {1, 2, 3}};
  EXPECT_EQ(*InferOp(AttentionMergeOp(), {out, lse, narrow, lse}, {}), (Types{out, lse}));
  const struct {
    const char* constraint;
    Types operands;
    Attributes attributes;
  } refusals[] = {{"attention_merge_c1", {out, lse, out}, {}},
                  {"attention_merge_c2", {narrow, lse, narrow, lse}, {}},
                  {"attention_merge_c2", {out, lse, lse, lse}, {}},
                  {"attention_merge_c3", {out, other, out, lse}, {}},
                  {"attention_merge_c3", {out, lse, out, other}, {}},
                  {"attention_merge_c4", {out, lse, out, lse}, {{"scale", 1.0}}}};
  for (const auto& r : refusals) {
    EXPECT_THAT(InferOp(AttentionMergeOp(), r.operands, r.attributes),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(r.constraint)));
  }
}

}  // namespace
}  // namespace colossus
