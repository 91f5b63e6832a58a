// Loops over tiles of attention: small products, softmax and masks, all in f32.
//
// Purpose: the inner parts of attention.cc. Tiles are row-major; leading dims are in floats.
// Thread-safety: pure functions, on the calling thread.
//
//   Tiles().gemm(rows, 64, d, q, ldq, 1, kt, 64, scores, 64, false,
//                1.0f);
#ifndef COLOSSUS_TENSOR_KERNELS_CPU_ATTENTION_LOOPS_H_
#define COLOSSUS_TENSOR_KERNELS_CPU_ATTENTION_LOOPS_H_

#include <cstdint>

#include "base/dtype.h"
#include "tensor/kernels/cpu/isa.h"

namespace colossus {

// Which keys of a tile a query sees, beyond what the tile as a whole tells.
struct TileMask {
  const int32_t* q_positions = nullptr;  // per row
  const int32_t* k_positions = nullptr;  // per column
  const int32_t* q_segments = nullptr;   // nullptr: none
  const int32_t* k_segments = nullptr;
  bool causal = false;
  int32_t window = 0;  // 0: none
};

struct AttentionLoops {
  // c[m, n] = accumulate ? c + a * b : factor * (a * b) with
  // a(i, p) = a[i * row_stride + p * column_stride], b[k, n] and c with leading dims ldb and ldc. n
  // is a multiple of 16: columns are padded. Sums run over p in order.
  void (*gemm)(int64_t m, int64_t n, int64_t k, const float* a, int64_t row_stride,
               int64_t column_stride, const float* b, int64_t ldb, float* c, int64_t ldc,
               bool accumulate, float factor);
  // c[i, j] = factor * sum over k of a[i, k] b[j, k]: for few rows, where turning b does not pay.
  void (*dots)(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b,
               int64_t ldb, float* c, int64_t ldc, float factor);
  // y[j, i] = x[i, j] for x[m, n].
  void (*transpose)(int64_t m, int64_t n, const float* x, int64_t ldx, float* y, int64_t ldy);
  void (*scale)(float* x, float factor, int64_t n);
  // The dot product of two rows.
  float (*dot)(const float* x, const float* y, int64_t n);

  // scores = cap * tanh(score / cap); the tanh is kept in `tanh` (nullptr: not wanted).
  void (*softcap)(int64_t m, int64_t n, float cap, float* scores, float* tanh, int64_t ld);
  // d *= 1 - tanh^2.
  void (*softcap_gradient)(int64_t m, int64_t n, const float* tanh, float* d, int64_t ld);
  // scores += slopes[row] * (key position - query position).
  void (*add_distances)(int64_t m, int64_t n, const float* slopes, const TileMask& places,
                        float* scores, int64_t ld);
  // y += x.
  void (*add)(int64_t m, int64_t n, const float* x, float* y, int64_t ld);
  // y = x * factors; y may be x.
  void (*multiply)(int64_t m, int64_t n, const float* x, const float* factors, float* y,
                   int64_t ld);
  // Sets masked scores of [m, n] to -infinity.
  void (*mask)(int64_t m, int64_t n, const TileMask& mask, float* scores, int64_t ld);
  // One step of the running softmax: raises maxima[m], turns scores into exp(score - maximum),
  // also the columns that pad n to a multiple of 16 (to 0),
  // updates sums[m], and scales the rows of `out` (columns floats) to the new maximum.
  void (*online_softmax)(int64_t m, int64_t n, float* scores, int64_t ld, float* maxima,
                         float* sums, float* out, int64_t columns);
  // scores = exp(score - lse[row]); the columns that pad n to a multiple of 16 are undefined.
  void (*probabilities)(int64_t m, int64_t n, const float* lse, float* scores, int64_t ld);
  // d = p * (d - mean[row]).
  void (*score_gradients)(int64_t m, int64_t n, const float* p, const float* mean, float* d,
                          int64_t ld);
};
namespace isa_v2 { extern const AttentionLoops kAttentionLoops; }
namespace isa_v3 { extern const AttentionLoops kAttentionLoops; }
namespace isa_v4 { extern const AttentionLoops kAttentionLoops; }

// Tiles of bf16 for CPUs that multiply pairs of them (isa.h, Bf16Pairs). An element is a pair
// in 32 bits, the first value in the low half; sums are f32.
struct PairLoops {
  // As AttentionLoops::gemm, k in elements: a(i, p) * b(p, j) is the sum of two products.
  void (*gemm)(int64_t m, int64_t n, int64_t k, const float* a, int64_t row_stride,
               int64_t column_stride, const float* b, int64_t ldb, float* c, int64_t ldc,
               bool accumulate, float factor);
  // Pairs along the rows of x[m, n]: y[m, (n + 1) / 2], an odd n filled up with 0.
  void (*narrow)(int64_t m, int64_t n, const float* x, int64_t ldx, float* y, int64_t ldy);
  // Pairs down the columns: y[(m + 1) / 2, n padded to 16], an odd m filled up with 0.
  void (*narrow_down)(int64_t m, int64_t n, const float* x, int64_t ldx, float* y, int64_t ldy);
  // The same from bf16 values, n a multiple of 16.
  void (*fold)(int64_t m, int64_t n, const BF16* x, int64_t ldx, float* y, int64_t ldy);
};
namespace isa_v2_pairs { extern const PairLoops kPairLoops; }
namespace isa_v4_bf16 { extern const PairLoops kPairLoops; }

// Portable unless the CPU has them.
inline const PairLoops& Pairs() {
  return Bf16Pairs() == PairSupport::kByCpu ? isa_v4_bf16::kPairLoops : isa_v2_pairs::kPairLoops;
}

inline const AttentionLoops& Tiles() {
  return PickIsa(isa_v2::kAttentionLoops, isa_v3::kAttentionLoops, isa_v4::kAttentionLoops);
}

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_CPU_ATTENTION_LOOPS_H_
