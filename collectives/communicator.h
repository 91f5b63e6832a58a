// Communicator: collective operations among the ranks of one group.
//
// Purpose: the one contract that every backend keeps (self, reference, in_process, mpi, nccl,
// simulated) and the conformance suite checks (testing/communicator_conformance.h). Ranks of a
// group are numbered 0 .. size() - 1 and issue the same operations in the same order; on CPU
// backends that is checked (sequence number, operation, counts, type, call site), and a mismatch is
// an error on all ranks that names both sides. Reductions add ranks in one canonical binary tree,
// whatever the algorithm, length or backend:
//   sum(lo, hi) = sum(lo, mid) + sum(mid, hi), mid = lo + the largest power of two < hi - lo,
// in the element type; bf16 and f16 are added in f32 and rounded once at the end.
// Thread-safety: one thread of a rank at a time; distinct communicators of a rank may be used by
// distinct threads at once, as the streams of a rank do. Ownership: the buffers are the caller's
// and stay valid and untouched by others until the operation has finished.
//
//   Collective sum;
//   sum.kind = CollectiveKind::kAllReduce;
//   sum.src = x; sum.dst = y; sum.count = n; sum.dtype = DType::kF32; sum.site = "loss";
//   RETURN_IF_ERROR(communicator.Run(sum));           // blocks
//   communicator.Launch(stream, sum);                 // or: in the order of a stream
#ifndef COLOSSUS_COLLECTIVES_COMMUNICATOR_H_
#define COLOSSUS_COLLECTIVES_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "base/stream.h"

namespace colossus {

enum class CollectiveKind : uint8_t {
  kAllReduce,      // dst[i] = sum over ranks of src[i]; src may be dst
  kAllGather,      // dst = the parts of all ranks, in rank order
  kReduceScatter,  // dst = this rank's part of the sum over ranks of src
  kAllToAll,       // part r of src goes to rank r, where it is part `rank` of dst
  kBroadcast,      // dst = src of rank `root`; src is read there only
  kExchange,       // sends src to rank `to` and receives dst from rank `from`; -1: neither
  kBarrier,        // returns when all ranks have come
};
absl::string_view Name(CollectiveKind kind);  // "all_reduce", ...

enum class Reduction : uint8_t { kSum, kMax, kMin };

// In place: src may be dst for all_reduce, and for broadcast at the root; src of an all_gather may
// be this rank's part of dst, and dst of a reduce_scatter this rank's part of src (both without
// rows). Other buffers of one operation do not overlap. Reductions are of f32, f64, bf16, f16, i32
// and i64 (integers wrap around; max and min of a NaN are NaN); everything else moves any type.
//
// One operation as one rank issues it. Sizes are in elements. `count` is
//   all_reduce, broadcast, exchange: of the whole buffer (exchange: sent; `receive_count` comes)
//   all_gather, reduce_scatter, all_to_all: of one part, if `counts` is empty.
// Rows: the buffer is `rows` rows, and the operation is done row by row, as gathering or splitting
// a dim that is not the first one needs it: row o of an all_gather's dst holds the parts of all
// ranks for row o. `count` is then of one row's part. Only for all_gather, reduce_scatter and
// all_to_all (whose src is [parts, rows, count] and whose dst is [rows, parts, count]), and only
// with equal parts.
struct Collective {
  CollectiveKind kind = CollectiveKind::kBarrier;
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  const void* src = nullptr;
  void* dst = nullptr;
  int64_t count = 0;
  int64_t rows = 1;
  // Uneven parts, one entry per rank: of all_gather and reduce_scatter, equal on all ranks; of
  // all_to_all, what this rank sends (src holds the parts one after another).
  std::vector<int64_t> counts = {};
  std::vector<int64_t> receive_counts = {};  // all_to_all with `counts`: what this rank receives
  int64_t receive_count = 0;                 // exchange
  int root = 0;
  int to = -1, from = -1;
  std::string site = {};  // where in the program, for reports: "h.3/all_reduce.1"
};

// What a rank has put on its links since the communicator was made.
struct CollectiveCounts {
  int64_t operations = 0;
  int64_t messages = 0;  // sent by this rank
  int64_t elements = 0;  // sent by this rank
  int64_t bytes = 0;     // sent by this rank

  CollectiveCounts& operator+=(const CollectiveCounts& more) {
    operations += more.operations;
    messages += more.messages;
    elements += more.elements;
    bytes += more.bytes;
    return *this;
  }
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Blocks until this rank's part is done: dst is complete, src may be reused. Error:
  // InvalidArgument for a malformed or mismatched operation, Aborted after another rank failed or
  // was lost (naming the first culprit), DeadlineExceeded when the watchdog ended a stall.
  virtual absl::Status Run(const Collective& operation) = 0;

  // Adds the operation to a stream. Default: work that calls Run.
  virtual void Launch(Stream& stream, Collective operation);

  // A communicator of some of this group's ranks, in the order given. Collective over `members`
  // only; ranks that are no members do not call. `name` is for reports: "tensor". REQUIRES: this
  // rank is a member.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Subgroup(const std::vector<int>& members,
                                                                 absl::string_view name) = 0;

  // Ends the job: every operation of this rank's world that waits or comes later fails with this
  // error, on all ranks. Safe from any thread. The first call counts.
  virtual void Abort(const absl::Status& why) = 0;
  // The error with which operations of this rank's world fail by now, or ok: for those who wait for
  // other ranks by other means. Default: ok. Safe from any thread.
  virtual absl::Status WorldStatus() const;

  virtual CollectiveCounts counts() const = 0;

  // For reports of failures: what this rank is doing. Cheap; a sign of life each, so that a long
  // computation between collectives is not taken for a stall. Of the rank, whichever of its
  // communicators is asked. Safe from any thread.
  virtual void SetWhere(int64_t step, absl::string_view phase);
  virtual void Beat();
  // Whether this rank waits in a collective, on any thread: then only that one's progress is a sign
  // of life. Default: no. Safe from any thread.
  virtual bool waits() const;
};

// Shorthands for host-side code: one value, in place.
absl::Status Barrier(Communicator& communicator, absl::string_view site);
absl::Status AllReduce(Communicator& communicator, double* values, int64_t count,
                       absl::string_view site, Reduction reduction = Reduction::kSum);
absl::Status AllReduce(Communicator& communicator, int64_t* values, int64_t count,
                       absl::string_view site, Reduction reduction = Reduction::kSum);

}  // namespace colossus

#endif  // COLOSSUS_COLLECTIVES_COMMUNICATOR_H_
