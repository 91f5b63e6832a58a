// Converting runs of elements to and from f32.
//
// Purpose: how loops that compute in f32 read and write 16-bit tensors.
// Thread-safety: pure functions, on the calling thread.
//
//   LoadRun(DType::kBF16, x, tile, n);  ...  StoreRun(DType::kBF16, tile, y, n);
#ifndef COLOSSUS_TENSOR_KERNELS_CPU_CONVERT_LOOPS_H_
#define COLOSSUS_TENSOR_KERNELS_CPU_CONVERT_LOOPS_H_

#include <cstdint>

#include "base/dtype.h"

namespace colossus {

struct ConvertLoops {
  void (*load_bf16)(const BF16* x, float* y, int64_t n);
  void (*load_f16)(const F16* x, float* y, int64_t n);
  void (*load_bool)(const uint8_t* x, float* y, int64_t n);  // 0 or 1
  void (*store_bf16)(const float* x, BF16* y, int64_t n);
  void (*store_f16)(const float* x, F16* y, int64_t n);
  void (*store_bool)(const float* x, uint8_t* y, int64_t n);  // x != 0
  void (*round_bf16)(const float* x, float* y, int64_t n);    // to bf16 and back; y may be x
  void (*round_f16)(const float* x, float* y, int64_t n);
};
namespace isa_v2 { extern const ConvertLoops kConvertLoops; }
namespace isa_v3 { extern const ConvertLoops kConvertLoops; }
namespace isa_v4 { extern const ConvertLoops kConvertLoops; }

// Dtypes: f32, bf16, f16, bool. f32 copies.
void LoadRun(DType dtype, const void* x, float* y, int64_t n);
void StoreRun(DType dtype, const float* x, void* y, int64_t n);
// Rounds f32 to bf16 or f16 and back. y may be x.
void RoundRun(DType dtype, const float* x, float* y, int64_t n);
// Between f32, bf16 and f16; equal dtypes copy.
void ConvertRun(DType src, const void* x, DType dst, void* y, int64_t n);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_CPU_CONVERT_LOOPS_H_
