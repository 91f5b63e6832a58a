// Binary trees: broadcast of any length, all_reduce of short ones, for any number of ranks.
//
// Purpose: fewest messages in a row. The tree is the canonical one of reduce.h: rank r, counted
// from the root, is joined to r + 1, r + 2, r + 4, ... as far as its range goes; the partial sums
// that travel are exactly those of the canonical order. Barrier: every rank signals the ranks 1, 2,
// 4, ... further.
// P ranks, L = ceil(log2 P), n elements of s bytes, partial sums of a bytes (4 for bf16 and f16):
//   broadcast   L steps; (P - 1) n elements in all; at most L messages and L n elements a rank;
//               L (alpha + n s beta)
//   all_reduce  2 L steps; 2 (P - 1) n elements in all; at most L messages a rank (rank 0) and,
//               at others, one more than their children; L (2 alpha + n (a + s) beta + n a gamma)
//   barrier     L steps and messages of 0 bytes; L alpha
// Thread-safe: functions of their arguments; the link is one thread's.
//
//   RETURN_IF_ERROR(TreeBroadcast(link, operation));
#ifndef COLOSSUS_COLLECTIVES_ALGORITHMS_TREE_H_
#define COLOSSUS_COLLECTIVES_ALGORITHMS_TREE_H_

#include "absl/status/status.h"
#include "collectives/algorithms/point_to_point.h"
#include "collectives/communicator.h"

namespace colossus {

// All: REQUIRES a valid operation of this kind (collectives/operation.h).
absl::Status TreeBroadcast(PointToPoint& link, const Collective& operation);
absl::Status TreeAllReduce(PointToPoint& link, const Collective& operation);
absl::Status DisseminationBarrier(PointToPoint& link);

// Children of the rank that is `place` ranks after the root.
int TreeChildren(int place, int size);

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_ALGORITHMS_TREE_H_
