// Dropout of a run of consecutive elements: what the op's kernel and chains share.
//
// Thread-safety: pure functions, on the calling thread.
//
//   const DropoutScalars scalars = DropoutScalarsOf(attributes);
//   DropoutRun(scalars, key, element, x, y, n);
#ifndef COLOSSUS_TENSOR_KERNELS_CPU_DROPOUT_RUN_H_
#define COLOSSUS_TENSOR_KERNELS_CPU_DROPOUT_RUN_H_

#include <cmath>
#include <cstdint>

#include "base/random.h"
#include "tensor/graph/attributes.h"
#include "tensor/kernels/cpu/update_loops.h"

namespace colossus {

struct DropoutScalars {
  float rate = 0, scale = 1;
  uint64_t site = 0;
};

inline DropoutScalars DropoutScalarsOf(const Attributes& attributes) {
  // Uniform numbers are multiples of 2^-24: the comparison with the float above `rate` is exact.
  const double rate = attributes.Float("rate");
  return {static_cast<float>(std::ceil(rate * 0x1p+24) * 0x1p-24),
          static_cast<float>(1 / (1 - rate)), SiteId(attributes.String("site"))};
}

// `key`: i64[2], seed and update. `element`: the global element of x[0]. y may be x.
inline void DropoutRun(const DropoutScalars& scalars, const void* key, int64_t element,
                       const float* x, float* y, int64_t n) {
  const int64_t* words = static_cast<const int64_t*>(key);
  Updates().dropout(x, {static_cast<uint64_t>(words[0]), static_cast<uint64_t>(words[1])},
                    scalars.site, static_cast<uint64_t>(element), scalars.rate, scalars.scale, y,
                    n);
}

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_CPU_DROPOUT_RUN_H_
