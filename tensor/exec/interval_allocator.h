// IntervalAllocator: offsets for buffers with lifetimes.
//
// Purpose: places buffers with known first and last use in as little memory as it can. Two
// deterministic strategies are tried, best fit in time order, and largest first, and the smaller
// result is taken.
// Thread-safety: a plain function.
//
//   std::vector<LiveBuffer> buffers = {{.bytes = 64, .first = 0, .last = 3}, ...};
//   int64_t peak = AssignOffsets(buffers);     // fills offset
#ifndef COLOSSUS_TENSOR_EXEC_INTERVAL_ALLOCATOR_H_
#define COLOSSUS_TENSOR_EXEC_INTERVAL_ALLOCATOR_H_

#include <cstdint>
#include <vector>

namespace colossus {

struct LiveBuffer {
  int64_t bytes = 0;   // rounded up to the alignment by the caller
  int64_t first = 0;   // instructions, inclusive
  int64_t last = 0;    // inclusive; >= first
  int64_t offset = 0;  // result
};

// Buffers whose lifetimes overlap get disjoint ranges. Returns one past the last used byte.
int64_t AssignOffsets(std::vector<LiveBuffer>& buffers);

// The same, tried harder until it fits `limit`: in order of time, of size, and of size times time,
// each again and again, where what lies beyond the limit is placed before the others the
// next time. Returns what AssignOffsets does, of the best try.
int64_t AssignOffsetsWithin(std::vector<LiveBuffer>& buffers, int64_t limit);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_INTERVAL_ALLOCATOR_H_
