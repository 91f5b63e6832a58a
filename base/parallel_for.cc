#include "base/parallel_for.h"

#include <omp.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/check.h"

namespace colossus {
namespace {

using RangeFn = absl::FunctionRef<void(int64_t, int64_t)>;

// True on a thread that runs a range of a ParallelFor.
thread_local bool in_parallel_for = false;

// Calls part(i) for i in [0, parts), each on a thread of its own.
#if defined(__SANITIZE_THREAD__)
// ThreadSanitizer does not see libgomp's barriers and would have to be told to ignore whatever
// happens in a parallel region; with plain threads it checks the loops themselves.
void RunParts(int parts, absl::FunctionRef<void(int)> part) {
  std::vector<std::thread> threads;
  for (int i = 1; i < parts; ++i) threads.emplace_back([&part, i] { part(i); });
  part(0);
  for (std::thread& thread : threads) thread.join();
}
#else
void RunParts(int parts, absl::FunctionRef<void(int)> part) {
  // Always the whole team: libgomp ends and creates threads when the size of a team changes. The
  // loop index, not the thread number, names the part, as OpenMP may grant fewer threads.
#pragma omp parallel for schedule(static, 1)
  for (int i = 0; i < parts; ++i) part(i);
}
#endif

}  // namespace

void SetThreads(int threads) {
  CHECK_GE(threads, 1);
  omp_set_num_threads(threads);
}

int Threads() { return omp_get_max_threads(); }

void ParallelFor(int64_t n, int64_t grain, RangeFn fn) {
  CHECK_GE(grain, 1);
  if (n <= 0) return;
  const int threads = Threads();
  if (n <= grain || threads == 1 || in_parallel_for || omp_in_parallel()) {
    fn(0, n);
    return;
  }
  const int64_t units = (n - 1) / grain + 1;
  const int parts = static_cast<int>(std::min<int64_t>(units, threads));
  // The first `units % parts` parts get one unit more.
  const int64_t base = units / parts, extra = units % parts;
  RunParts(parts, [&](int i) {
    const int64_t first = i * base + std::min<int64_t>(i, extra);
    const int64_t last = first + base + (i < extra ? 1 : 0);
    in_parallel_for = true;
    fn(first * grain, last == units ? n : last * grain);
    in_parallel_for = false;
  });
}

}  // namespace colossus
