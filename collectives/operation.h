// What can be said of one Collective by itself: whether it is well formed, how large its buffers
// are, and how it reads in a message.
//
// Purpose: shared by all backends, so that they refuse and describe alike.
// Thread-safe: functions of their arguments. Nothing is owned.
//
//   RETURN_IF_ERROR(Validate(operation, rank, size));
//   Describe(operation);    // "all_reduce sum f32, 4 elements, at h.3/all_reduce.1"
#ifndef COLOSSUS_COLLECTIVES_OPERATION_H_
#define COLOSSUS_COLLECTIVES_OPERATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collectives/communicator.h"

namespace colossus {

// InvalidArgument, naming the operation and the field, for what no rank of a group of `size` may
// ask for: sizes below 0, counts of the wrong length, roots and peers out of range, rows where they
// are not offered, missing buffers, buffers that overlap, types that are not reduced.
absl::Status Validate(const Collective& operation, int rank, int size);

// InvalidArgument unless `members` are distinct ranks of a group of `size` and `rank` is one of
// them.
absl::Status ValidateMembers(const std::vector<int>& members, int rank, int size);
int IndexOf(const std::vector<int>& members, int rank);

std::string Describe(const Collective& operation);

// InvalidArgument's text if `a` and `b`, issued by two different ranks as the same operation, do
// not belong together (`rank_a` and `rank_b` in the group); empty if they do. Call sites are
// compared where both give one, but for exchange, whose two ends may be different places.
std::string MismatchOf(const Collective& a, int rank_a, const Collective& b, int rank_b);

// Elements of the whole src and dst buffers of `rank`; 0 for a buffer that is not used.
int64_t SourceElements(const Collective& operation, int rank, int size);
int64_t DestinationElements(const Collective& operation, int rank, int size);

// Part `part` of all_gather's dst, reduce_scatter's src, all_to_all's src: its first element (of
// the first row) and its length (in one row).
struct PartRange {
  int64_t first = 0, count = 0;
};
PartRange PartOf(const Collective& operation, int part);
// Part `part` of an all_to_all's dst.
PartRange ReceivedPartOf(const Collective& operation, int part);
// How algorithms split a buffer of `count` elements among `size` ranks: equal parts, rounded up;
// the last ones may be shorter or empty.
PartRange EvenPart(int64_t count, int size, int part);

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_OPERATION_H_
