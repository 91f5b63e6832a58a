#include "tensor/ops/loss_parts.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "tensor/testing/run_op.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

// Columns [origin, origin + count) of x[n v].
HostTensor Columns(const HostTensor& x, int64_t origin, int64_t count) {
  const int64_t n = x.type().dims[0], v = x.type().dims[1];
  HostTensor part(Type{x.type().dtype, {n, count}});
  for (int64_t i = 0; i < n * count; ++i) part.Set(i, x.Get(i / count * v + origin + i % count));
  return part;
}

// Protects: parts put together are the loss of the whole, with padding, ignored labels, a part that
// is only padding, and columns' gradients.
TEST(LossPartsTest, PartsMakeTheWhole) {
  std::mt19937_64 random(TestSeed());
  const HostTensor logits = RandomTensor(DType::kF64, {6, 12}, random);
  const HostTensor labels = HostTensor::Of<int32_t>({6}, {0, 4, 8, -100, 3, 7});
  const Attributes nine{{"classes", 9}};
  const std::vector<HostTensor> whole = RunOp(CrossEntropyOp(), {logits, labels}, nine);
  HostTensor parts(Type{DType::kF64, {8, 6}});
  for (int64_t p = 0; p < 4; ++p) {
    const HostTensor part = RunOp(CrossEntropyPartOp(), {Columns(logits, 3 * p, 3), labels},
                                  {{"origin", 3 * p}, {"classes", 9}})[0];
    for (int64_t i = 0; i < 12; ++i) parts.Set(p * 12 + i, part.Get(i));
  }
  EXPECT_EQ(parts.Get(36), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(parts.Get(42), 0);
  const std::vector<HostTensor> merged = RunOp(CrossEntropyMergeOp(), {parts, labels}, nine);
  for (int r : {0, 1}) {
    EXPECT_TRUE(
        TensorNear(merged[r].ToDoubles(), whole[r].ToDoubles(), {.relative_to_max = 1e-14}));
  }
  const HostTensor seed = HostTensor::Of<double>({}, {0.5});
  const HostTensor gradient =
      RunOp(CrossEntropyGradOp(), {seed, logits, labels, whole[1]}, nine)[0];
  for (int64_t p = 0; p < 4; ++p) {
    const HostTensor part =
        RunOp(CrossEntropyGradOp(), {seed, Columns(logits, 3 * p, 3), labels, whole[1]},
              {{"origin", 3 * p}, {"classes", 9}})[0];
    EXPECT_EQ(part, Columns(gradient, 3 * p, 3)) << p;
  }
}

// Protects: a label that is no class is found by every rank, also where it would be padding.
TEST(LossPartsTest, BadLabelsGiveNaN) {
  const HostTensor parts(Type{DType::kF64, {4, 2}});
  for (int32_t label : {9, -1, 100}) {
    const HostTensor labels = HostTensor::Of<int32_t>({2}, {0, label});
    EXPECT_TRUE(
        std::isnan(RunOp(CrossEntropyMergeOp(), {parts, labels}, {{"classes", 9}})[0].Get(0)));
  }
}

TEST(LossPartsTest, Constraints) {
  const Type logits{DType::kF32, {2, 4}}, labels{DType::kI32, {2}}, parts{DType::kF32, {4, 2}};
  const Attributes part{{"origin", 0}, {"classes", 4}}, merge{{"classes", 4}};
  const struct {
    const char* constraint;
    const Op* op;
    Types operands;
    Attributes attributes;
  } refusals[] = {
      {"loss_parts_c1", &CrossEntropyPartOp(), {logits}, part},
      {"loss_parts_c1", &CrossEntropyMergeOp(), {parts, logits}, merge},
      {"loss_parts_c2", &CrossEntropyPartOp(), {logits, labels}, merge},
      {"loss_parts_c2", &CrossEntropyPartOp(), {logits, labels}, {{"origin", -1}, {"classes", 4}}},
      {"loss_parts_c2", &CrossEntropyMergeOp(), {parts, labels}, {{"classes", 0}}},
      {"loss_parts_c2", &CrossEntropyMergeOp(), {parts, labels}, part},
      {"loss_parts_c3", &CrossEntropyPartOp(), {parts, labels}, part},
      {"loss_parts_c3", &CrossEntropyPartOp(), {{DType::kI32, {2, 4}}, labels}, part},
      {"loss_parts_c4", &CrossEntropyMergeOp(), {logits, labels}, merge},
      {"loss_parts_c4", &CrossEntropyMergeOp(), {{DType::kF32, {3, 2}}, labels}, merge},
      {"loss_parts_c4", &CrossEntropyMergeOp(), {{DType::kBF16, {4, 2}}, labels}, merge},
  };
  for (const auto& r : refusals) {
    EXPECT_THAT(InferOp(*r.op, r.operands, r.attributes),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(r.constraint)));
  }
}

}  // namespace
}  // namespace colossus
