// Pairwise exchange: every rank sends to every other one what that one needs, directly.
//
// Purpose: the fewest bytes, for any number of ranks, uneven parts and rows; reductions add all
// ranks' parts at their destination, so the canonical order costs nothing.
// P ranks, n elements of s bytes in the whole buffer, equal parts; uneven ones as their counts say.
// With m = (P - 1)/P n:
//   reduce_scatter  P - 1 messages; m elements; (P - 1) alpha + m s (beta + gamma)
//   all_gather      P - 1 messages; m elements; (P - 1) alpha + m s beta
//   all_to_all      as all_gather
//   all_reduce      both of the first two, over even parts: 2 (P - 1) messages; 2 m elements
//   exchange        1 message to the other rank; alpha + n s beta
// A reduction takes its part in pieces of whole rows, or of parts of one, so that what is received
// needs at most about 4 MiB; each piece costs the messages once more: PairwisePieces() of them.
// Thread-safe: functions of their arguments; the link is one thread's.
//
//   RETURN_IF_ERROR(PairwiseAllToAll(link, operation));
#ifndef COLOSSUS_COLLECTIVES_ALGORITHMS_PAIRWISE_H_
#define COLOSSUS_COLLECTIVES_ALGORITHMS_PAIRWISE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "collectives/algorithms/point_to_point.h"
#include "collectives/communicator.h"

namespace colossus {

// All: REQUIRES a valid operation of this kind (collectives/operation.h).
absl::Status PairwiseReduceScatter(PointToPoint& link, const Collective& operation);
absl::Status PairwiseAllGather(PointToPoint& link, const Collective& operation);
absl::Status PairwiseAllToAll(PointToPoint& link, const Collective& operation);
absl::Status PairwiseAllReduce(PointToPoint& link, const Collective& operation);
absl::Status PairwiseExchange(PointToPoint& link, const Collective& operation);

// Pieces in which a reduction takes its parts: of the largest part, `rows` rows of `count` elements
// each, in a group of `size`. At least 1; if more than `rows`, a multiple of it.
int64_t PairwisePieces(int64_t rows, int64_t count, DType dtype, int size);

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_ALGORITHMS_PAIRWISE_H_
