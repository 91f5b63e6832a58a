// A dense product in the terms of column-major libraries (cuBLAS), and its definition.
//
// Purpose: matmul kernels think row-major: y[m, n] = a[m, k] b[k, n]. A column-major library that
// reads the same memory sees every matrix turned, so it is asked for y^T = b^T a^T: the first
// factor is b, the second a. ToColumnMajor is that mapping as a pure function; GemmElement computes
// what the library is asked for, from the same numbers, and judges the mapping where there is no
// GPU. On a GPU it is the kernel for products that the library lacks.
// Thread-safety: pure functions, plain values.
//
//   const ColumnMajorGemm gemm = ToColumnMajor({.m = 3, .n = 5, .k = 7, .b_transposed = true});
//   gemm.first.transposed;   // true: b is stored [n, k]
#ifndef COLOSSUS_TENSOR_KERNELS_FUNCTORS_GEMM_H_
#define COLOSSUS_TENSOR_KERNELS_FUNCTORS_GEMM_H_

#include <cstdint>

#include "tensor/kernels/functors/element.h"

namespace colossus {

// A product of dense row-major matrices, one per batch entry.
struct DenseProduct {
  int64_t batch = 1, m = 0, n = 0, k = 0;  // all >= 1
  bool a_transposed = false;               // a is [batch, k, m], else [batch, m, k]
  bool b_transposed = false;               // b is [batch, n, k], else [batch, k, n]
  DType in = DType::kF32, out = DType::kF32;
  bool accumulate = false;                 // y += the product
  int64_t alignment = 64;                  // bytes; a power of two that divides every address
};

// The largest power of two, up to the product's alignment, that divides the address of every batch
// entry of a value of `elements` elements per entry.
inline int64_t EntryAlignment(const DenseProduct& p, int64_t elements, DType dtype) {
  int64_t alignment = p.alignment;
  const int64_t bytes = elements * SizeOf(dtype);
  while (p.batch > 1 && bytes % alignment != 0) alignment /= 2;
  return alignment;
}

// A column-major matrix: element (r, c) at r + c * leading, of batch entry i from i * stride on.
struct ColumnMajorMatrix {
  int64_t leading = 1, stride = 0;  // in elements
  bool transposed = false;          // enters the product turned
  // As stored, before the turn.
  int64_t rows = 0, columns = 0;
};

// result = op(first) op(second), result of `rows` x `columns`.
struct ColumnMajorGemm {
  int64_t rows = 0, columns = 0, inner = 0, batch = 1;
  ColumnMajorMatrix first, second, result;  // b, a, y
};

inline ColumnMajorGemm ToColumnMajor(const DenseProduct& p) {
  // A row-major [rows, columns] is a column-major columns x rows with leading = columns.
  auto turned = [](int64_t rows, int64_t columns, bool transposed) {
    return ColumnMajorMatrix{.leading = columns, .stride = rows * columns,
                             .transposed = transposed, .rows = columns, .columns = rows};
  };
  ColumnMajorGemm g{.rows = p.n, .columns = p.m, .inner = p.k, .batch = p.batch,
                    .first = {}, .second = {}, .result = {}};
  g.first = p.b_transposed ? turned(p.n, p.k, true) : turned(p.k, p.n, false);
  g.second = p.a_transposed ? turned(p.k, p.m, true) : turned(p.m, p.k, false);
  g.result = turned(p.m, p.n, false);
  return g;
}

// One element of the result, unit (batch * columns + column) * rows + row. T: float or double.
template <class T>
struct GemmElement {
  ColumnMajorGemm gemm;
  Source first, second;
  Target result;
  bool accumulate = false;

  HD static int64_t Offset(const ColumnMajorMatrix& x, int64_t batch, int64_t r, int64_t c) {
    return batch * x.stride + (x.transposed ? c + r * x.leading : r + c * x.leading);
  }
  HD void operator()(int64_t unit) const {
    const int64_t row = unit % gemm.rows, column = unit / gemm.rows % gemm.columns;
    const int64_t batch = unit / gemm.rows / gemm.columns;
    T sum = 0;
    for (int64_t k = 0; k < gemm.inner; ++k) {
      sum += LoadAs<T>(first.dtype, first.data, Offset(gemm.first, batch, row, k)) *
             LoadAs<T>(second.dtype, second.data, Offset(gemm.second, batch, k, column));
    }
    const int64_t at = Offset(gemm.result, batch, row, column);
    if (accumulate) sum += LoadAs<T>(result.dtype, result.data, at);
    StoreAs<T>(result.dtype, result.data, at, sum);
  }
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_FUNCTORS_GEMM_H_
