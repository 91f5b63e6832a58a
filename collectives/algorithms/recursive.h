// Recursive halving and doubling: few messages and few bytes, where the ranks are a power of two.
//
// Purpose: in step i a rank works with the one whose number differs in bit i only, so after it
// groups of 2^(i+1) neighbours have their sum: the canonical order. Halving splits what is still to
// be added in every step, doubling puts results together again (or, short, adds everything).
// P ranks, L = log2 P, n elements of s bytes in the whole buffer, partial sums of a bytes (4 for
// bf16 and f16; the first step sends elements):
//   all_reduce, halving + doubling   2 L messages; 2 (P - 1)/P n elements;
//                                    2 L alpha + n (s/2 + (1/2 - 1/P) a + (P - 1)/P s) beta
//   all_reduce, doubling             L messages; L n elements; L (alpha + n a (beta + gamma))
//   reduce_scatter, halving          L messages; (P - 1)/P n elements; equal parts, one row
//   all_gather, doubling             L messages; (P - 1)/P n elements; equal parts, one row
// Thread-safe: functions of their arguments; the link is one thread's.
//
//   RETURN_IF_ERROR(HalvingAllReduce(link, operation));
#ifndef COLOSSUS_COLLECTIVES_ALGORITHMS_RECURSIVE_H_
#define COLOSSUS_COLLECTIVES_ALGORITHMS_RECURSIVE_H_

#include "absl/status/status.h"
#include "collectives/algorithms/point_to_point.h"
#include "collectives/communicator.h"

namespace colossus {

// All: REQUIRES a valid operation of this kind (collectives/operation.h), a power of two of ranks;
// the last two: no `counts`, rows == 1.
absl::Status HalvingAllReduce(PointToPoint& link, const Collective& operation);
absl::Status DoublingAllReduce(PointToPoint& link, const Collective& operation);
absl::Status HalvingReduceScatter(PointToPoint& link, const Collective& operation);
absl::Status DoublingAllGather(PointToPoint& link, const Collective& operation);

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_ALGORITHMS_RECURSIVE_H_
