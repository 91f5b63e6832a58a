// Loops over one row of f32, the inner parts of norms, softmax, losses, reductions and rotary.
//
// Purpose: one row at a time, in f32; kernels load 16-bit rows into buffers first. Sums run in 16
// chains added in a fixed order, so a row's bits depend on the row alone.
// Thread-safety: pure functions, on the calling thread.
//
//   Rows().softmax(x, y, n);
#ifndef COLOSSUS_TENSOR_KERNELS_CPU_ROW_LOOPS_H_
#define COLOSSUS_TENSOR_KERNELS_CPU_ROW_LOOPS_H_

#include <cstdint>

#include "tensor/kernels/cpu/isa.h"

namespace colossus {

struct RowLoops {
  float (*sum)(const float* x, int64_t n);
  float (*max)(const float* x, int64_t n);                     // -infinity for n = 0
  void (*add)(const float* x, float* y, int64_t n);            // y += x
  void (*raise)(const float* x, float* y, int64_t n);          // y = max(y, x)

  // y = (x - mean) * rstd * weight + bias; centred = false: mean is 0 (rms_norm).
  void (*norm)(const float* x, const float* weight, const float* bias, float epsilon, bool centred,
               int64_t n, float* y, float* mean, float* rstd);
  // dx, and dweight and dbias added to (nullptr: not wanted). `scratch`: n floats.
  void (*norm_grad)(const float* dy, const float* x, const float* weight, float mean, float rstd,
                    bool centred, int64_t n, float* dx, float* dweight, float* dbias,
                    float* scratch);

  void (*softmax)(const float* x, float* y, int64_t n);
  void (*softmax_grad)(const float* dy, const float* y, float* dx, int64_t n);
  float (*log_sum_exp)(const float* x, int64_t n);
  // y = exp(x - lse) * seed
  void (*scaled_exp)(const float* x, float lse, float seed, float* y, int64_t n);
  // y = a * factor_a + b * factor_b
  void (*mix)(const float* a, float factor_a, const float* b, float factor_b, float* y, int64_t n);

  // cosine and sine of position * frequencies[i], times scale, each rounded to f32.
  void (*angles)(float position, const float* frequencies, float scale, float* cosine, float* sine,
                 int64_t n);
  // y1 = x1 cos - x2 sin, y2 = x2 cos + x1 sin; element i at i * stride.
  void (*rotate)(const float* x1, const float* x2, const float* cosine, const float* sine,
                 float* y1, float* y2, int64_t n, int64_t stride);
};
namespace isa_v2 { extern const RowLoops kRowLoops; }
namespace isa_v3 { extern const RowLoops kRowLoops; }
namespace isa_v4 { extern const RowLoops kRowLoops; }

inline const RowLoops& Rows() {
  return PickIsa(isa_v2::kRowLoops, isa_v3::kRowLoops, isa_v4::kRowLoops);
}

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_CPU_ROW_LOOPS_H_
