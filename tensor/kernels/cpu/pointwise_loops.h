// Pointwise functions on runs of f32.
//
// Thread-safety: pure functions, on the calling thread.
//
//   PointwiseRun run = FindPointwiseRun("gelu");   // nullptr: no fast loop
//   run.function(x, nullptr, nullptr, y, n, 0);
#ifndef COLOSSUS_TENSOR_KERNELS_CPU_POINTWISE_LOOPS_H_
#define COLOSSUS_TENSOR_KERNELS_CPU_POINTWISE_LOOPS_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace colossus {

// y[i] = f(a[i], b[i], c[i]); every pointer is valid, also of operands the
// function lacks. `attribute`: the op's
// float attribute. y may be a. Bools are 0 and 1.
struct PointwiseRun {
  const char* op = nullptr;
  void (*function)(const float* a, const float* b, const float* c, float* y, int64_t n,
                   float attribute) = nullptr;
};
struct PointwiseTable {
  const PointwiseRun* runs;
  int count;
};
namespace isa_v2 { extern const PointwiseTable kPointwiseTable; }
namespace isa_v3 { extern const PointwiseTable kPointwiseTable; }
namespace isa_v4 { extern const PointwiseTable kPointwiseTable; }

// nullptr if the op has none.
const PointwiseRun* FindPointwiseRun(absl::string_view op);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_CPU_POINTWISE_LOOPS_H_
