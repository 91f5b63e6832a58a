// Field case G7 on ranks: slopes go with their heads, and distances are those of the whole row.
#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "collectives/mesh.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shardformer/alibi.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/ops/attention.h"
#include "tensor/testing/run_op.h"
#include "tensor/testing/sharded_op.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kLength = 8, kWidth = 4;

HostTensor Slopes(int64_t heads) {
  const std::vector<float> slopes = AlibiSlopes(heads);
  return HostTensor::Of<float>({heads}, slopes);
}

// Causal attention with slopes. `order`: which position of the row stands where, as ranks of a ring
// have them; without it they stand as they come.
ShardedOp Attend(int64_t heads, const std::vector<int32_t>& order = {}) {
  std::mt19937_64 random(TestSeed());
  ShardedOp op{
      .op = &AttentionOp(), .attributes = {{"scale", 0.5}, {"causal", true}}, .operands = {}};
  for (int i = 0; i < 3; ++i) {
    op.operands.push_back(RandomTensor(DType::kF32, {1, kLength, heads, kWidth}, random));
  }
  Strings with{"slopes"};
  if (!order.empty()) {
    const HostTensor positions = HostTensor::Of<int32_t>({1, kLength}, order);
    op.operands.push_back(positions);
    op.operands.push_back(positions);
    with = {"q_positions", "k_positions", "slopes"};
  }
  op.operands.push_back(Slopes(heads));
  op.attributes.Set("with", with);
  return op;
}

// Result 0 is [1, length, heads, width], result 1 the log-sum-exp of logits, [1, heads, length].
void ExpectAsOnOneRank(ShardedOp op, const char* axis, std::map<std::string, AxisNames> axes) {
  const std::vector<HostTensor> whole = RunWhole(op);
  op.axes = std::move(axes);
  ASSERT_OK_AND_ASSIGN(const Mesh mesh, Mesh::Make({{axis, 2}}));
  ASSERT_OK_AND_ASSIGN(const ShardedRun run, RunSharded(op, mesh, CpuKernels()));
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_TRUE(TensorNear(run.results[i].ToDoubles(), whole[i].ToDoubles(),
                           {.absolute = 1e-6, .relative_l2 = 1e-5}));
  }
}

TEST(FieldCases, G7LayoutsEqualOneRank) {
  for (int64_t heads : {6, 12}) {
    ExpectAsOnOneRank(Attend(heads), "tensor", {{"g", {"tensor"}}});
    ExpectAsOnOneRank(Attend(heads), "sequence", {{"s", {"sequence"}}, {"t", {"sequence"}}});
    // In zigzag order: rank 0 has the outer quarters of the row.
    ExpectAsOnOneRank(Attend(heads, {0, 1, 6, 7, 2, 3, 4, 5}), "sequence",
                      {{"s", {"sequence"}}, {"t", {"sequence"}}});
  }
}

// Of 6 heads rank 1 of tensor=2 has the last three, with their slopes: not those of a model of 3.
TEST(FieldCases, G7SlopesOfRankOne) {
  ShardedOp op = Attend(6);
  op.axes = {{"g", {"tensor"}}};
  ASSERT_OK_AND_ASSIGN(const Mesh mesh, Mesh::Make({{"tensor", 2}}));
  ASSERT_OK_AND_ASSIGN(const ShardedRun run, RunSharded(op, mesh));
  std::vector<HostTensor> own;
  for (size_t i = 0; i < 3; ++i) {
    own.emplace_back(Type{DType::kF32, {1, kLength, 3, kWidth}});
    for (int64_t t = 0; t < kLength; ++t) {
      for (int64_t x = 0; x < 3 * kWidth; ++x) {
        own[i].Set(t * 3 * kWidth + x, op.operands[i].Get((2 * t + 1) * 3 * kWidth + x));
      }
    }
  }
  own.push_back(HostTensor::Of<float>({3}, {0.00390625f, 0.5f, 0.125f}));
  const std::vector<HostTensor> alone = RunOp(AttentionOp(), own, op.attributes);
  EXPECT_TRUE(run.runs[1].outputs.at("y0") == alone[0]);
  own[3] = Slopes(3);
  EXPECT_FALSE(RunOp(AttentionOp(), own, op.attributes)[0] == alone[0]);
}

}  // namespace
}  // namespace colossus
