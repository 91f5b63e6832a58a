// MatmulLayout: how an einsum of two tensors becomes one (batched) product of dense matrices.
//
// Purpose: what matmul kernels of every device share. The labels of the einsum fall into four
// groups: batch (in a, b and y), m (a and y), n (b and y) and k (a and b). A product of dense
// matrices needs every value to be [batch][group][group] with each group's labels in one order.
// Values that are not are `packed`: copied into that order before the product, or out of it after.
// Thread-safety: pure functions. Ownership: plain values.
//
//   const MatmulLayout layout = ChooseMatmulLayout(rule);
//   LabelExtent(rule, layout.groups.m);   // rows of y
#ifndef COLOSSUS_TENSOR_KERNELS_MATMUL_LAYOUT_H_
#define COLOSSUS_TENSOR_KERNELS_MATMUL_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "tensor/graph/types.h"
#include "tensor/ops/factor_rule.h"

namespace colossus {

using Labels = std::vector<int>;  // factor indices of a rule

struct MatmulGroups {
  Labels batch, m, n, k;
};

// How one value enters the product: as [batch][rows][columns], or with rows and columns turned.
struct ValueLayout {
  bool transposed = false;
  bool packed = false;  // through a copy, never transposed
};

struct MatmulLayout {
  bool swapped = false;  // a is operand 1 and b operand 0: y^T = b^T a^T
  Labels a_labels, b_labels, y_labels;  // of the values in order, without extent 1
  MatmulGroups groups;
  ValueLayout a, b, y;  // y is not transposed
  int64_t copied = 0;   // elements of packed values
};

// Of the orders the values suggest for each group, the one that copies least; the first if equal.
// REQUIRES: the bound rule of a matmul.
MatmulLayout ChooseMatmulLayout(const FactorRule& rule);

// Product of the extents.
int64_t LabelExtent(const FactorRule& rule, const Labels& labels);

Labels Concat(const Labels& a, const Labels& b, const Labels& c);

// A copy that brings a dense value with the labels `src` into the order `dst`.
struct LabelCopy {
  Dims dims, src_strides;  // of the copy, in its row-major order; strides in elements
};
// REQUIRES: `src` and `dst` hold the same labels.
LabelCopy CopyBetween(const FactorRule& rule, const Labels& src, const Labels& dst);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_MATMUL_LAYOUT_H_
