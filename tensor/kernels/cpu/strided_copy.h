// StridedCopy: a permuting and converting copy between two layouts.
//
// Purpose: what transposes, slices, broadcasts, concatenations and the packing of matrix operands
// have in common.
// Thread-safety: Run is const and reentrant; it uses the calling rank's threads.
//
//   // y[j, i] = x[i, j], x is [3, 5] f32, y is bf16
//   StridedCopy copy({5, 3}, {1, 5}, DType::kF32, {3, 1}, DType::kBF16);
//   copy.Run(x, y);
#ifndef COLOSSUS_TENSOR_KERNELS_CPU_STRIDED_COPY_H_
#define COLOSSUS_TENSOR_KERNELS_CPU_STRIDED_COPY_H_

#include <cstdint>

#include "base/dtype.h"
#include "tensor/graph/types.h"

namespace colossus {

class StridedCopy {
 public:
  StridedCopy() = default;
  // Strides in elements; a source stride of 0 repeats. Equal dtypes copy bits; otherwise both are
  // f32, bf16 or f16 and values are rounded to nearest. REQUIRES: Supports(src, dst).
  StridedCopy(const Dims& dims, const Dims& src_strides, DType src, const Dims& dst_strides,
              DType dst);
  static bool Supports(DType src, DType dst);

  void Run(const void* src, void* dst) const;

 private:
  void RunRows(const char* src, char* dst) const;
  void RunTiles(const char* src, char* dst) const;

  Dims dims_, src_strides_, dst_strides_;  // merged, no extent 1
  DType src_ = DType::kF32, dst_ = DType::kF32;
  int64_t elements_ = 0;
  int turned_ = -1;  // the dim with source stride 1, when that is not the last dim
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_CPU_STRIDED_COPY_H_
