#include "base/dtype.h"
#include "gtest/gtest.h"
#include "tensor/kernels/cpu/kernel_case.h"

namespace colossus {
namespace {

struct Product {
  const char* spec;
  Dims a, b;
  int64_t k;  // terms of a sum
};

const Product kProducts[] = {
    {"m k, k n -> m n", {5, 7}, {7, 3}, 7},
    {"m k, k n -> m n", {64, 128}, {128, 257}, 128},
    {"m k, k n -> m n", {1, 33}, {33, 65}, 33},
    {"m k, k n -> m n", {33, 1}, {1, 65}, 1},
    {"m k, n k -> m n", {40, 24}, {17, 24}, 24},
    {"k m, k n -> m n", {300, 24}, {300, 17}, 300},
    {"k m, n k -> m n", {30, 24}, {17, 30}, 30},
    {"m k, k n -> n m", {12, 20}, {20, 9}, 20},      // the result turned
    {"b s c, c k h d -> b s k h d", {2, 5, 12}, {12, 3, 2, 8}, 12},
    {"b s k h d, c k h d -> b s c", {2, 5, 3, 2, 8}, {12, 3, 2, 8}, 48},
    {"b s c, b s k h d -> c k h d", {2, 5, 12}, {2, 5, 3, 2, 8}, 10},
    {"b s h d, b t h d -> b h s t", {2, 5, 3, 8}, {2, 7, 3, 8}, 8},  // packed operands
    {"b h s t, b t h d -> b s h d", {2, 3, 5, 7}, {2, 7, 3, 8}, 7},  // packed result
    {"c k h d, b s c -> b s k h d", {12, 3, 2, 8}, {2, 5, 12}, 12},  // operands swapped
    {"a k c, a c n -> a k n", {3, 4, 5}, {3, 5, 6}, 5},
    {"k, k -> ", {37}, {37}, 37},
    {"m, n -> m n", {6}, {5}, 1},
    {"m k, k -> m", {6, 11}, {11}, 11},
    {"i, i -> i", {6}, {6}, 1},
    {"i j, j i -> i j", {6, 5}, {5, 6}, 1},
    {"m k, k n -> m n", {0, 4}, {4, 3}, 4},
    {"m k, k n -> m n", {3, 0}, {0, 2}, 0},
};

TEST(MatmulTest, ReferenceAgrees) {
  for (const Product& p : kProducts) {
    // |y| is about sqrt(k); each of the k products adds one rounding.
    double roundings = 4 + p.k;
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      Check({.op = "matmul", .attributes = {{"spec", p.spec}},
             .operands = {{dtype, p.a}, {dtype, p.b}}, .roundings = roundings});
    }
    Check({.op = "matmul", .attributes = {{"spec", p.spec}, {"dtype", "f32"}},
           .operands = {{DType::kBF16, p.a}, {DType::kBF16, p.b}}, .roundings = roundings});
    Check({.op = "matmul", .attributes = {{"spec", p.spec}, {"dtype", "bf16"}},
           .operands = {{DType::kF32, p.a}, {DType::kF32, p.b}}, .roundings = roundings});
  }
}

TEST(MatmulTest, DeclinesDouble) {
  Check({.op = "matmul", .attributes = {{"spec", "m k, k n -> m n"}},
         .operands = {{DType::kF64, {3, 4}}, {DType::kF64, {4, 5}}}, .declines = true});
}

}  // namespace
}  // namespace colossus
