// A loop split over the threads of the calling rank.
//
// Each thread that calls SetThreads (a rank has one) owns a team of that many threads, itself
// included; it is OpenMP's team, shared with the libraries that use OpenMP. There is no other
// state. The split depends only on (n, grain, Threads()), never on timing.
//
//   SetThreads(2);                                       // once per rank
//   ParallelFor(rows, 16, [&](int64_t begin, int64_t end) {
//     for (int64_t row = begin; row < end; ++row) Normalize(row);
//   });
#ifndef COLOSSUS_BASE_PARALLEL_FOR_H_
#define COLOSSUS_BASE_PARALLEL_FOR_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace colossus {

// Sets the size of the calling thread's team. REQUIRES: threads >= 1. A thread that never calls
// this has a team of OMP_NUM_THREADS or of all cores.
void SetThreads(int threads);
int Threads();

// Calls fn(begin, end) on contiguous ranges that cover [0, n) once, at most one per thread, and
// returns when all are done; their writes are then visible to the caller.
//   n      elements; no call for n <= 0
//   grain  >= 1: the fewest elements worth a thread, and the unit of the split: every range begins
//          at a multiple of it, so blocks of `grain` elements are never divided
// Runs as the one call fn(0, n) on the calling thread if n <= grain, with one thread, or inside
// another ParallelFor. fn must not throw.
void ParallelFor(int64_t n, int64_t grain, absl::FunctionRef<void(int64_t, int64_t)> fn);

}  // namespace colossus

#endif  // COLOSSUS_BASE_PARALLEL_FOR_H_
