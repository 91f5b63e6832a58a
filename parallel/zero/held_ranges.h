// HeldRange: which elements of a state a rank holds, and where in its program.
//
// Purpose: from the states of a job, one per parameter and role, to those of a program, which may
// be chunks of which the rank has a shard. Everything outside this folder that reads or writes
// states goes through these ranges.
// Thread-safety: plain functions. Ownership: plain values.
//
//   for (const HeldRange& range : HeldRanges(layout, state, mesh, rank))
//     program.WriteStateBytes(range.home, range.home_first * size, values + range.first, ...);
#ifndef COLOSSUS_PARALLEL_ZERO_HELD_RANGES_H_
#define COLOSSUS_PARALLEL_ZERO_HELD_RANGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/mesh.h"
#include "parallel/sharding/partition.h"
#include "parallel/zero/layout.h"
#include "tensor/graph/sharding.h"

namespace colossus {

struct HeldRange {
  int64_t first = 0, count = 0;  // elements of the rank's part (LocalState::slice), row-major
  std::string home;              // the program's state
  int64_t home_first = 0;        // its element
  // Of the ranks that hold these elements this one saves them: each element has one such rank.
  bool owner = true;
  AxisNames copies;  // axes along which all ranks hold these elements
};

// `state`: a parameter's, or of its master or moments (StateName), with this rank's slice. Without
// chunks: all of it, at home in the state of its own name.
std::vector<HeldRange> HeldRanges(const ZeroLayout& layout, const LocalState& state,
                                  const Mesh& mesh, int rank);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_ZERO_HELD_RANGES_H_
