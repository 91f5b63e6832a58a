// OperationRecord: one collective as one rank issued it, of a fixed size.
//
// Purpose: what ranks show each other to check that they issue the same, and to report what they
// wait for; it fits in shared memory and at the head of a message.
// Thread-safe: plain values.
//
//   const OperationRecord mine = RecordOf(operation, "tensor", rank, size, turn);
//   if (!MismatchOf(mine, theirs).empty()) ...
#ifndef COLOSSUS_COLLECTIVES_WATCH_OPERATION_RECORD_H_
#define COLOSSUS_COLLECTIVES_WATCH_OPERATION_RECORD_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"

namespace colossus {

struct OperationRecord {
  uint64_t turn = 0;   // number of the operation in its group, from 1; 0: none
  uint64_t group = 0;  // identity of the group
  int64_t count = 0;   // in all, of uneven parts
  int64_t receive_count = 0;
  int64_t rows = 1;
  uint64_t counts_hash = 0;  // of uneven parts that all ranks give alike
  int32_t rank = 0, size = 0;
  int32_t root = 0, to = -1, from = -1;
  CollectiveKind kind = CollectiveKind::kBarrier;
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  bool uneven = false;
  char group_name[28] = {};  // cut off at the end
  char site[80] = {};        // cut off at the front
};

OperationRecord RecordOf(const Collective& operation, absl::string_view group_name, uint64_t group,
                         int rank, int size, uint64_t turn);

// "operation 17 of group tensor, all_reduce sum f32, 4 elements, at h.3/all_reduce.1"
std::string Describe(const OperationRecord& record);

// What differs between two ranks' operations of one group that should be the same; empty if
// nothing does. As for Collective (collectives/operation.h), but sizes of uneven all_to_alls.
std::string MismatchOf(const OperationRecord& a, const OperationRecord& b);

// "collectives of group tensor [2,3] do not match: element counts; rank 2: ...; rank 3: ..." of two
// records of members of the group; `members`: its ranks in the world.
std::string MismatchText(absl::Span<const int> members, absl::string_view what,
                         const OperationRecord& a, const OperationRecord& b);

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_WATCH_OPERATION_RECORD_H_
