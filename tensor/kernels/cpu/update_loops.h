// Loops over flat buffers of f32: optimizer updates, dropout, sums of squares.
//
// Purpose: each rounds after every operation as the op is defined, so bits equal the reference's.
// Thread-safety: pure functions, on the calling thread.
//
//   Updates().adamw(master, grad, m, v, scalars, p_out, m_out, v_out, n);
#ifndef COLOSSUS_TENSOR_KERNELS_CPU_UPDATE_LOOPS_H_
#define COLOSSUS_TENSOR_KERNELS_CPU_UPDATE_LOOPS_H_

#include <cstdint>

#include "base/dtype.h"
#include "base/random.h"
#include "tensor/kernels/cpu/isa.h"
#include "tensor/ops/stochastic_rounding.h"

namespace colossus {

struct AdamwScalarValues {
  float beta1, one_minus_beta1, beta2, one_minus_beta2, epsilon;
  float decay;       // 1 - learning_rate * weight_decay
  float step;        // learning_rate / correction1
  float root2;       // sqrt(correction2)
  float grad_scale;
};
struct SgdScalarValues {
  float momentum, weight_decay, learning_rate, grad_scale;
};

struct UpdateLoops {
  // Outputs may be the inputs they replace.
  void (*adamw)(const float* p, const float* g, const float* m, const float* v,
                const AdamwScalarValues& s, float* p_out, float* m_out, float* v_out, int64_t n);
  void (*sgd)(const float* p, const float* g, const float* u, const SgdScalarValues& s,
              float* p_out, float* u_out, int64_t n);
  // y[i] = x[i] * scale where the uniform number of element first + i is >= rate, else 0.
  void (*dropout)(const float* x, RandomKey key, uint64_t site, uint64_t first, float rate,
                  float scale, float* y, int64_t n);
  // Of elements first, first + 1, ...
  void (*random_bits)(RandomKey key, uint64_t site, uint64_t first, uint32_t* bits, int64_t n);
  // By the low or the high half of an element's bits (tensor/ops/stochastic_rounding.h).
  void (*round_low)(const float* x, const uint32_t* bits, BF16* y, int64_t n);
  void (*round_high)(const float* x, const uint32_t* bits, BF16* y, int64_t n);
  // Of at most 1024 elements: 16 double sums, lane i mod 16, added in lane order.
  double (*sum_squares_block)(const float* x, int64_t n);
};
namespace isa_v2 { extern const UpdateLoops kUpdateLoops; }
namespace isa_v3 { extern const UpdateLoops kUpdateLoops; }
namespace isa_v4 { extern const UpdateLoops kUpdateLoops; }

inline const UpdateLoops& Updates() {
  return PickIsa(isa_v2::kUpdateLoops, isa_v3::kUpdateLoops, isa_v4::kUpdateLoops);
}

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_CPU_UPDATE_LOOPS_H_
