// Norms, rotary, embedding, losses: each kernel against the reference.
#include "base/dtype.h"
#include "gtest/gtest.h"
#include "tensor/kernels/cpu/kernel_case.h"

namespace colossus {
namespace {

const DType kSmallFloats[] = {DType::kF32, DType::kBF16, DType::kF16};
const Dims kRows[] = {{3, 5}, {2, 3, 64}, {300, 33}, {1, 1}, {0, 4}, {1100, 16}};

TEST(NormTest, ReferenceAgrees) {
  for (DType dtype : kSmallFloats) {
    for (const Dims& dims : kRows) {
      const Dims c = {dims.back()};
      // mean and rstd: a sum of c terms; y: f32 after it.
      Check({.op = "layer_norm", .attributes = {{"eps", 1e-5}, {"with", Strings{"weight", "bias"}}},
             .operands = {{dtype, dims}, {DType::kF32, c}, {dtype, c}}, .roundings = 64});
      Check({.op = "layer_norm", .attributes = {{"eps", 1e-5}, {"dtype", "bf16"}},
             .operands = {{dtype, dims}}, .roundings = 64});
      Check({.op = "rms_norm",
             .attributes = {{"eps", 1e-6}, {"offset", 1}, {"with", Strings{"weight"}}},
             .operands = {{dtype, dims}, {dtype, c}}, .roundings = 64});
    }
  }
}

TEST(NormTest, GradientsAgree) {
  for (DType dtype : kSmallFloats) {
    for (const Dims& dims : kRows) {
      Dims rows(dims.begin(), dims.end() - 1);
      const Type x{dtype, dims}, w{DType::kF32, {dims.back()}}, stat{DType::kF32, rows};
      // Sums over up to 1100 rows in blocks: the error grows with their root.
      Check({.op = "layer_norm_grad", .attributes = {{"bias", true}, {"with", Strings{"weight"}}},
             .operands = {x, x, stat, stat, w}, .roundings = 256});
      Check({.op = "layer_norm_grad", .attributes = {{"bias", false}},
             .operands = {x, x, stat, stat}, .roundings = 256});
      Check({.op = "rms_norm_grad", .attributes = {{"offset", 1}, {"with", Strings{"weight"}}},
             .operands = {x, x, stat, w}, .roundings = 256});
    }
  }
}

TEST(RotaryTest, ReferenceAgrees) {
  for (DType dtype : kSmallFloats) {
    for (bool interleaved : {false, true}) {
      for (bool inverse : {false, true}) {
        Check({.op = "rotary",
               .attributes = {{"interleaved", interleaved}, {"inverse", inverse}, {"scale", 1.25}},
               .operands = {{dtype, {2, 9, 3, 22}}, {DType::kI32, {2, 9}}, {DType::kF32, {10}}},
               .bounds = {{1, 100000}},
               .values = {{2, {1, 0.5, 0.1, 0.03, 0.007, 1e-3, 2e-4, 1e-5, 0, 3}}}});
      }
    }
  }
}

TEST(EmbeddingTest, ReferenceAgrees) {
  for (DType dtype : kSmallFloats) {
    for (DType id : {DType::kI32, DType::kI64}) {
      Check({.op = "embedding", .operands = {{dtype, {11, 20}}, {id, {4, 30}}},
             .bounds = {{1, 12}}});  // 11 is outside
      Check({.op = "embedding", .attributes = {{"origin", 3}, {"dtype", "f32"}},
             .operands = {{dtype, {11, 20}}, {id, {4, 30}}}, .bounds = {{1, 20}}});
      Check({.op = "embedding_grad", .attributes = {{"rows", 11}, {"dtype", "f32"}},
             .operands = {{dtype, {4, 30, 20}}, {id, {4, 30}}}, .bounds = {{1, 13}}});
      Check({.op = "embedding_grad", .attributes = {{"rows", 11}, {"dtype", "bf16"}, {"origin", 2}},
             .operands = {{dtype, {4, 30, 20}}, {id, {4, 30}}}, .bounds = {{1, 13}}});
    }
    // Wide enough for several threads and more than one run of columns each.
    Check({.op = "embedding_grad", .attributes = {{"rows", 5}, {"dtype", "bf16"}},
           .operands = {{dtype, {40, 2300}}, {DType::kI64, {40}}}, .bounds = {{1, 7}}});
  }
  Check({.op = "embedding_grad", .attributes = {{"rows", 5}, {"dtype", "f32"}},
         .operands = {{DType::kBF16, {0, 12}}, {DType::kI32, {0}}}});
  Check({.op = "cache_append", .operands = {{DType::kBF16, {3, 6, 2, 5}},
                                            {DType::kBF16, {3, 2, 2, 5}}, {DType::kI32, {3}}},
         .bounds = {{2, 7}}});
}

// Labels: mostly classes, one ignored, and one that is padding (NaN loss) if `bad`.
std::vector<double> Labels(bool bad) { return {3, 0, -100, 6, bad ? 8.0 : 1.0, 2, 5}; }

TEST(LossTest, CrossEntropyAgrees) {
  for (DType dtype : kSmallFloats) {
    for (bool bad : {false, true}) {
      const Attributes padded{{"classes", 8}};
      Check({.op = "cross_entropy", .attributes = padded,
             .operands = {{dtype, {5, 7, 10}}, {DType::kI32, {5, 7}}},
             .values = {{1, Labels(bad)}}, .scale = 3});
      Check({.op = "cross_entropy_grad", .attributes = padded,
             .operands = {{DType::kF32, {}}, {dtype, {5, 7, 10}}, {DType::kI64, {5, 7}},
                          {DType::kF32, {5, 7}}},
             .values = {{2, Labels(bad)}}});
    }
  }
}

TEST(LossTest, LinearCrossEntropyAgrees) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    for (int64_t chunk : {1024, 16}) {  // one chunk; two whole ones and a tail
      // dlogits are rounded to bf16 before their products: dw (f32) has that error.
      const double roundings = dtype == DType::kBF16 ? 1 << 16 : 256;
      const Types operands = {{dtype, {5, 7, 12}}, {dtype, {9, 12}}, {DType::kI32, {5, 7}},
                              {DType::kF32, {}}, {dtype, {9}}};
      Check({.op = "linear_cross_entropy",
             .attributes = {{"chunk", chunk}, {"classes", 8}, {"with", Strings{"seed", "bias"}}},
             .operands = operands, .values = {{2, Labels(false)}, {3, {0.125}}},
             .roundings = roundings});
      Check({.op = "linear_cross_entropy", .attributes = {{"chunk", chunk}},
             .operands = {operands[0], operands[1], operands[2]},
             .values = {{2, Labels(false)}}, .roundings = 256});
    }
  }
}

}  // namespace
}  // namespace colossus
