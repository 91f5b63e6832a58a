// GemmSpec: the shape of a dense (batched) matrix product, y[b] = a[b] * w[b].
//
// Thread-safety, ownership: a plain value.
//
//   GemmSpec spec{.m = 64, .n = 32, .k = 128, .threads = 2};
#ifndef COLOSSUS_TENSOR_KERNELS_CPU_GEMM_SPEC_H_
#define COLOSSUS_TENSOR_KERNELS_CPU_GEMM_SPEC_H_

#include <cstdint>

#include "base/dtype.h"

namespace colossus {

struct GemmSpec {
  int64_t batch = 1, m = 0, n = 0, k = 0;  // all >= 1
  bool a_transposed = false;               // a is [batch, k, m], else [batch, m, k]
  bool b_transposed = false;               // b is [batch, n, k], else [batch, k, n]
  DType in = DType::kF32, out = DType::kF32;
  bool accumulate = false;                 // y += the product
  int threads = 1;                         // of the rank that runs it
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_CPU_GEMM_SPEC_H_
