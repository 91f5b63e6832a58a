// The canonical reduction: the one order in which ranks are added.
//
// Purpose: every backend and algorithm on CPUs adds with these functions, so their bits agree:
//   sum(lo, hi) = sum(lo, mid) + sum(mid, hi), mid = lo + the largest power of two < hi - lo,
// in the element type; bf16 and f16 in f32, rounded once at the end.
// Thread-safe: functions of their arguments. Buffers are the caller's.
//
//   ReduceTree(DType::kF32, Reduction::kSum, {x0, x1, x2}, {y}, {.count = n});  // (x0 + x1) + x2
#ifndef COLOSSUS_COLLECTIVES_REDUCE_H_
#define COLOSSUS_COLLECTIVES_REDUCE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "base/dtype.h"
#include "collectives/communicator.h"

namespace colossus {

inline constexpr int kMostReducedRanks = 4096;

// Where the canonical tree over ranks lo .. hi - 1 divides. REQUIRES: hi - lo >= 2.
int TreeMiddle(int lo, int hi);

// Rows of elements, the same for all buffers of one side. Strides are in elements.
struct ReduceRows {
  int64_t rows = 1;
  int64_t count = 0;  // of one row
  int64_t src_stride = 0, dst_stride = 0;
};

// Every dst gets the reduction of all srcs, in their order; a dst may be the same buffer as a src.
// REQUIRES: 1 to kMostReducedRanks srcs, at least one dst, a type that is reduced.
void ReduceTree(DType dtype, Reduction reduction, absl::Span<const void* const> srcs,
                absl::Span<void* const> dsts, const ReduceRows& rows);

// Partial sums, for algorithms that pass them on: of type AccumulatorOf(dtype), which is f32 for
// bf16 and f16, else the type itself.
DType AccumulatorOf(DType dtype);

// Elements of `dtype` as a rank gave them, or partial sums of them.
struct Operand {
  const void* data = nullptr;
  bool partial = false;
};
// out[i] = lo[i] + hi[i], partial sums; out may be lo's or hi's memory if that is partial.
void CombinePartials(DType dtype, Reduction reduction, const Operand& lo, const Operand& hi,
                     void* out, int64_t count);
// The end: rounds partial sums to elements. dst may be src if the types are the same.
void RoundPartials(DType dtype, const void* src, void* dst, int64_t count);

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_REDUCE_H_
