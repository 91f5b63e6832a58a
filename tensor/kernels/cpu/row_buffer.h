// Rows of 16-bit tensors as f32.
//
// Purpose: lets row loops see f32 whatever the tensor's dtype: f32 rows in place, others by way of
// a buffer.
// Thread-safety: plain functions on the caller's memory.
//
//   const float* x = RowIn(dtype, data, row, n, buffer);
//   float* y = RowOut(dtype, result, row, n, buffer2);  ...;  Finish(dtype, result, row, n, y);
#ifndef COLOSSUS_TENSOR_KERNELS_CPU_ROW_BUFFER_H_
#define COLOSSUS_TENSOR_KERNELS_CPU_ROW_BUFFER_H_

#include <cstdint>

#include "base/dtype.h"
#include "tensor/kernels/cpu/convert_loops.h"

namespace colossus {

// Row `row` of n elements; `buffer` (n floats) is used unless dtype is f32.
inline const float* RowIn(DType dtype, const void* data, int64_t row, int64_t n, float* buffer) {
  if (dtype == DType::kF32) return static_cast<const float*>(data) + row * n;
  LoadRun(dtype, static_cast<const char*>(data) + row * n * SizeOf(dtype), buffer, n);
  return buffer;
}

// Where to compute the row: in place for f32, else the buffer, which Finish stores.
inline float* RowOut(DType dtype, void* data, int64_t row, int64_t n, float* buffer) {
  return dtype == DType::kF32 ? static_cast<float*>(data) + row * n : buffer;
}
inline void Finish(DType dtype, void* data, int64_t row, int64_t n, const float* buffer) {
  if (dtype == DType::kF32) return;
  StoreRun(dtype, buffer, static_cast<char*>(data) + row * n * SizeOf(dtype), n);
}

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_CPU_ROW_BUFFER_H_
