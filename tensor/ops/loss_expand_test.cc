// Embeddings and losses with the vocabulary split over ranks against the whole ops.
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/ops/embedding.h"
#include "tensor/ops/loss.h"
#include "tensor/testing/run_op.h"
#include "tensor/testing/sharded_op.h"

namespace colossus {
namespace {

// Sums of up to a few hundred terms of magnitude 1 in another order: 1e-13 of the largest.
constexpr Limit kF64{.absolute = 1e-13, .relative_to_max = 1e-13};
constexpr Limit kF32{.absolute = 1e-5, .relative_to_max = 1e-5};

const Mesh& Cube() {
  static const Mesh* const mesh = new Mesh(*Mesh::Make({{"data", 2}, {"row", 2}, {"tensor", 2}}));
  return *mesh;
}

int64_t Below(std::mt19937_64& random, int64_t n) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
}

// Ids below `classes`; `ignored`: some are -100.
HostTensor Labels(Dims dims, int64_t classes, bool ignored, std::mt19937_64& random) {
  HostTensor labels(Type{DType::kI32, std::move(dims)});
  for (int64_t i = 0; i < labels.type().elements(); ++i) {
    const bool skip = ignored && Below(random, 4) == 0;
    labels.Set(i, static_cast<double>(skip ? kIgnoreLabel : Below(random, classes)));
  }
  return labels;
}

void ExpectSame(const ShardedOp& split, const Mesh& mesh, const Limit& limit,
                const std::string& what, KernelList kernels = ReferenceKernels()) {
  absl::StatusOr<ShardedRun> run = RunSharded(split, mesh, kernels);
  ASSERT_OK(run.status()) << what;
  const std::vector<HostTensor> whole = RunWhole(split);
  ASSERT_EQ(run->results.size(), whole.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_TRUE(TensorNear(run->results[i].ToDoubles(), whole[i].ToDoubles(), limit))
        << what << ": result " << i;
  }
}

// Protects: parts of a table sum up to the rows, parts of its gradient need nothing from others.
TEST(VocabularyTest, Embedding) {
  std::mt19937_64 random(TestSeed());
  for (int trial = 0; trial < 20; ++trial) {
    const int64_t rows = 4 * (1 + Below(random, 5)), width = 2 * (1 + Below(random, 4));
    const Dims ids{2 * (1 + Below(random, 3)), 1 + Below(random, 5)};
    const std::map<std::string, AxisNames> axes = {
        {"v", {"tensor", "row"}}, {"d0", trial % 2 ? AxisNames{"data"} : AxisNames{}}};
    ShardedOp lookup{.op = &EmbeddingOp(),
                     .operands = {RandomTensor(DType::kF64, {rows, width}, random),
                                  Labels(ids, rows, false, random)},
                     .axes = axes};
    ExpectSame(lookup, Cube(), kF64, "embedding");
    absl::StatusOr<ShardedRun> run = RunSharded(lookup, Cube());
    ASSERT_OK(run.status());
    EXPECT_EQ(run->shardings[0].partial, (AxisNames{"row", "tensor"}));
    EXPECT_TRUE(run->runs[0].counts.empty());
    ShardedOp gradient{.op = &EmbeddingGradOp(),
                       .attributes = {{"rows", rows}, {"dtype", "f64"}},
                       .operands = {RandomTensor(DType::kF64, {ids[0], ids[1], width}, random),
                                    lookup.operands[1]},
                       .axes = axes};
    ExpectSame(gradient, Cube(), kF64, "embedding_grad");
  }
}

TEST(VocabularyTest, CrossEntropy) {
  std::mt19937_64 random(TestSeed());
  for (int trial = 0; trial < 20; ++trial) {
    const int64_t columns = 4 * (1 + Below(random, 5)), classes = 1 + Below(random, columns);
    const Dims lead{2 * (1 + Below(random, 2)), 1 + Below(random, 4)};
    ShardedOp loss{.op = &CrossEntropyOp(),
                   .attributes = {{"classes", classes}},
                   .operands = {RandomTensor(DType::kF64, {lead[0], lead[1], columns}, random),
                                Labels(lead, classes, true, random)},
                   .axes = {{"v", {"row", "tensor"}}, {"d0", {"data"}}}};
    ExpectSame(loss, Cube(), kF64, "cross_entropy");
    const HostTensor lse = RunWhole(loss)[1];
    ShardedOp gradient{
        .op = &CrossEntropyGradOp(),
        .attributes = loss.attributes,
        .operands = {HostTensor::Of<double>({}, {0.25}), loss.operands[0], loss.operands[1], lse},
        .axes = {{"v", {"tensor"}}, {"d1", {}}, {"d0", {"data"}}}};
    ExpectSame(gradient, Cube(), kF64, "cross_entropy_grad");
  }
}

ShardedOp RandomLinearLoss(DType dtype, std::mt19937_64& random) {
  const DType wide = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const int64_t columns = 4 * (1 + Below(random, 6)), classes = 1 + Below(random, columns);
  const int64_t width = 2 * (1 + Below(random, 5));
  Dims lead{2 * (1 + Below(random, 3))};
  if (Below(random, 3) > 0) lead.push_back(1 + Below(random, 6));
  Dims x = lead;
  x.push_back(width);
  ShardedOp loss{
      .op = &LinearCrossEntropyOp(),
      .attributes = {{"chunk", 1 + Below(random, 9)}, {"classes", classes}},
      .operands = {RandomTensor(dtype, x, random), RandomTensor(dtype, {columns, width}, random),
                   Labels(lead, classes, true, random)}};
  Strings with;
  if (Below(random, 4) > 0) {
    with.push_back("seed");
    HostTensor seed(Type{wide, {}});
    seed.Set(0, 0.5);
    loss.operands.push_back(std::move(seed));
  }
  if (Below(random, 2) == 0) {
    with.push_back("bias");
    loss.operands.push_back(RandomTensor(dtype, {columns}, random));
  }
  if (!with.empty()) loss.attributes.Set("with", with);
  const std::vector<std::map<std::string, AxisNames>> splits = {
      {{"v", {"tensor"}}},
      {{"v", {"tensor", "row"}}, {"d0", {"data"}}},
      {{"v", {"row"}}, {"c", {"tensor"}}, {"d0", {"data"}}},
      {{"c", {"tensor"}}}};
  loss.axes = splits[Below(random, 4)];
  return loss;
}

TEST(VocabularyTest, LinearCrossEntropy) {
  std::mt19937_64 random(TestSeed());
  for (int trial = 0; trial < 60; ++trial) {
    const ShardedOp loss = RandomLinearLoss(DType::kF64, random);
    ExpectSame(loss, Cube(), kF64, loss.attributes.ToString());
  }
  for (int trial = 0; trial < 20; ++trial) {
    const ShardedOp loss = RandomLinearLoss(DType::kF32, random);
    ExpectSame(loss, Cube(), kF32, loss.attributes.ToString(), CpuKernels());
  }
  // dx and the cotangents of logits are rounded to bf16: half a unit in 2^8 of the largest, twice.
  for (int trial = 0; trial < 20; ++trial) {
    const ShardedOp loss = RandomLinearLoss(DType::kBF16, random);
    ExpectSame(loss, Cube(), {.absolute = 1e-3, .relative_to_max = 0x1p-7},
               loss.attributes.ToString(), CpuKernels());
  }
}

// Protects: the head is multiplied three times, never again for the gradient, and what is gathered
// is two numbers for each token.
TEST(VocabularyTest, ThreeProducts) {
  std::mt19937_64 random(TestSeed());
  ShardedOp loss{.op = &LinearCrossEntropyOp(),
                 .attributes = {{"chunk", 5}, {"with", Strings{"seed"}}},
                 .operands = {RandomTensor(DType::kF64, {4, 3, 6}, random),
                              RandomTensor(DType::kF64, {16, 6}, random),
                              Labels({4, 3}, 16, false, random), HostTensor::Of<double>({}, {1})},
                 .axes = {{"v", {"row", "tensor"}}, {"d0", {"data"}}}};
  absl::StatusOr<ShardedRun> run = RunSharded(loss, Cube());
  ASSERT_OK(run.status());
  double flops = 0;
  for (const Node& node : run->graphs[0].nodes()) {
    if (node.op->name() != "matmul") continue;
    const Types types = run->graphs[0].OperandTypes(node);
    flops += node.op->CostOf({types, node.attributes}).flops;
  }
  EXPECT_EQ(flops, 3 * 2 * 6 * 4 * 6);  // products, 6 tokens, 4 columns, width 6
  for (const RankRun& rank : run->runs) {
    ASSERT_EQ(rank.counts.size(), 1u);
    EXPECT_EQ(rank.counts.at("row,tensor").elements, 3 * 2 * 6);
  }
  EXPECT_EQ(run->shardings[0].partial, (AxisNames{"data"}));
  EXPECT_EQ(run->shardings[1].partial, (AxisNames{"row", "tensor"}));
  EXPECT_EQ(run->shardings[2].dims[0], (AxisNames{"row", "tensor"}));
  EXPECT_EQ(run->shardings[2].partial, (AxisNames{"data"}));
}

// FIELD-CASES A13: vocabulary 10 over 4 ranks, padded to 12; a target in each rank's part.
TEST(VocabularyTest, FieldA13PaddedVocabulary) {
  const Mesh mesh = *Mesh::Make({{"tensor", 4}});
  HostTensor x(Type{DType::kF32, {4, 5}}), w(Type{DType::kF32, {12, 5}});
  for (int64_t i = 0; i < 20; ++i) x.Set(i, 1 + static_cast<double>(i % 3));
  ShardedOp loss{.op = &LinearCrossEntropyOp(),
                 .attributes = {{"classes", 10}, {"with", Strings{"seed"}}},
                 .operands = {x, w, HostTensor::Of<int32_t>({4}, {1, 4, 7, 9}),
                              HostTensor::Of<float>({}, {1})},
                 .axes = {{"v", {"tensor"}}}};
  absl::StatusOr<ShardedRun> run = RunSharded(loss, mesh, CpuKernels());
  ASSERT_OK(run.status());
  EXPECT_NEAR(run->results[0].Get(0) / 4, 2.302585, 1e-6);
  for (int64_t i = 50; i < 60; ++i) {
    EXPECT_EQ(run->results[2].Get(i), 0) << "a padded row has a gradient";
  }
  EXPECT_NE(run->results[2].Get(49), 0);
  // A target of 10 is not a class, though the padded matrix has such a row.
  loss.operands[2] = HostTensor::Of<int32_t>({4}, {1, 4, 7, 10});
  run = RunSharded(loss, mesh, CpuKernels());
  ASSERT_OK(run.status());
  EXPECT_TRUE(std::isnan(run->results[0].Get(0)));
}

}  // namespace
}  // namespace colossus
