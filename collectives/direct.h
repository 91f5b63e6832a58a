// The work of one rank in a collective whose ranks see each other's buffers.
//
// Purpose: the arithmetic of the in-process backend, apart from its waiting. The ranks' parts write
// disjoint memory and read only what no part writes (but where an element is read and written by
// the same part), so all ranks may do theirs at the same time.
// Thread-safe: functions of their arguments. Buffers are the ranks'.
//
//   // when all ranks have published their operations:
//   DoPart(operations, rank, /*threads=*/1, [&] { row.Beat(); });
#ifndef COLOSSUS_COLLECTIVES_DIRECT_H_
#define COLOSSUS_COLLECTIVES_DIRECT_H_

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"

namespace colossus {

// Does the part of `rank`: for all_reduce the rank's even part (operation.h), written to the dst of
// all ranks; else all of the rank's own dst. Splits it with ParallelFor if `threads` > 1.
// operations[r] is what rank r issues; they are valid and match. `beat` is called now and then,
// once for each 16 MiB or so, and is to be cheap.
void DoPart(absl::Span<const Collective* const> operations, int rank, int threads,
            absl::FunctionRef<void()> beat);

// What the rank sends: elements that others read from its buffers or that it writes to theirs, its
// own copies not counted. Elements: all_reduce 2 (P-1)/P n, all_gather (P-1) n/P, reduce_scatter
// (P-1)/P n, all_to_all (P-1)/P n, broadcast (P-1) n at the root, exchange n; a message for each
// peer and direction.
CollectiveCounts DirectCounts(const Collective& operation, int rank, int size);

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_DIRECT_H_
