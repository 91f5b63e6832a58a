#include "collectives/direct.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "base/parallel_for.h"
#include "collectives/operation.h"
#include "collectives/reduce.h"

namespace colossus {
namespace {

constexpr int64_t kGrainBytes = 256 * 1024;  // the fewest bytes worth a thread

constexpr int64_t kGrains = 64;  // between two signs of life

using Ops = absl::Span<const Collective* const>;

struct Worker {
  int threads;
  absl::FunctionRef<void()> beat;
};

void For(int64_t n, int64_t grain, const Worker& worker,
         absl::FunctionRef<void(int64_t, int64_t)> fn) {
  for (int64_t at = 0; at < n; at += kGrains * grain) {
    const int64_t count = std::min(kGrains * grain, n - at);
    if (worker.threads > 1) {
      ParallelFor(count, grain, [&](int64_t begin, int64_t end) { fn(at + begin, at + end); });
    } else {
      fn(at, at + count);
    }
    worker.beat();
  }
}

// Rows of bytes from one buffer to another.
struct RowCopy {
  const void* src = nullptr;
  void* dst = nullptr;
  int64_t rows = 1, bytes = 0, src_stride = 0, dst_stride = 0;
};

void Copy(const RowCopy& copy, const Worker& worker) {
  if (copy.src == copy.dst || copy.bytes == 0) return;
  const char* src = static_cast<const char*>(copy.src);
  char* dst = static_cast<char*>(copy.dst);
  if (copy.rows == 1) {
    For(copy.bytes, kGrainBytes, worker, [&](int64_t begin, int64_t end) {
      std::memcpy(dst + begin, src + begin, static_cast<size_t>(end - begin));
    });
    return;
  }
  For(copy.rows, 1 + kGrainBytes / copy.bytes, worker, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      std::memcpy(dst + row * copy.dst_stride, src + row * copy.src_stride,
                  static_cast<size_t>(copy.bytes));
    }
  });
}

const void* At(const void* buffer, int64_t element, DType dtype) {
  return static_cast<const char*>(buffer) + element * SizeOf(dtype);
}
void* At(void* buffer, int64_t element, DType dtype) {
  return static_cast<char*>(buffer) + element * SizeOf(dtype);
}

using Sources = absl::InlinedVector<const void*, 16>;
using Destinations = absl::InlinedVector<void*, 16>;

// Elements `first` .. of every src (of its first row), reduced, to `dst_first` .. of `dsts`.
void Reduce(Ops ops, int64_t first, int64_t dst_first, const Destinations& dsts,
            const ReduceRows& rows, const Worker& worker) {
  const DType dtype = ops[0]->dtype;
  const bool flat = rows.rows == 1;
  const int64_t grain = kGrainBytes / SizeOf(dtype);
  const int64_t length = flat ? rows.count : rows.rows;
  if (rows.count == 0) return;
  For(length, flat ? grain : 1 + grain / rows.count, worker, [&](int64_t begin, int64_t end) {
    const int64_t src_at = first + begin * (flat ? 1 : rows.src_stride);
    const int64_t dst_at = dst_first + begin * (flat ? 1 : rows.dst_stride);
    ReduceRows part = rows;
    (flat ? part.count : part.rows) = end - begin;
    Sources from;
    Destinations to;
    for (const Collective* op : ops) from.push_back(At(op->src, src_at, dtype));
    for (void* dst : dsts) to.push_back(At(dst, dst_at, dtype));
    ReduceTree(dtype, ops[0]->reduction, from, to, part);
  });
}

void AllReduce(Ops ops, int rank, const Worker& worker) {
  const PartRange part = EvenPart(ops[0]->count, static_cast<int>(ops.size()), rank);
  Destinations dsts;
  for (const Collective* op : ops) dsts.push_back(op->dst);
  Reduce(ops, part.first, part.first, dsts, {.count = part.count}, worker);
}

void ReduceScatter(Ops ops, int rank, const Worker& worker) {
  const Collective& own = *ops[static_cast<size_t>(rank)];
  const PartRange part = PartOf(own, rank);
  const ReduceRows rows = {.rows = own.rows,
                           .count = part.count,
                           .src_stride = own.count * static_cast<int64_t>(ops.size()),
                           .dst_stride = part.count};
  Reduce(ops, part.first, 0, {own.dst}, rows, worker);
}

void AllGather(Ops ops, int rank, const Worker& worker) {
  const Collective& own = *ops[static_cast<size_t>(rank)];
  const int64_t size = SizeOf(own.dtype), parts = static_cast<int64_t>(ops.size());
  for (int i = 0; i < parts; ++i) {
    const int peer = static_cast<int>((rank + i) % parts);  // each begins elsewhere
    const PartRange part = PartOf(own, peer);
    Copy({.src = ops[static_cast<size_t>(peer)]->src,
          .dst = At(own.dst, part.first, own.dtype),
          .rows = own.rows,
          .bytes = part.count * size,
          .src_stride = part.count * size,
          .dst_stride = own.count * parts * size},
         worker);
  }
}

void AllToAll(Ops ops, int rank, const Worker& worker) {
  const Collective& own = *ops[static_cast<size_t>(rank)];
  const int64_t size = SizeOf(own.dtype), parts = static_cast<int64_t>(ops.size());
  for (int i = 0; i < parts; ++i) {
    const int peer = static_cast<int>((rank + i) % parts);
    const Collective& other = *ops[static_cast<size_t>(peer)];
    const PartRange sent = PartOf(other, rank), received = ReceivedPartOf(own, peer);
    Copy({.src = At(other.src, sent.first * own.rows, own.dtype),
          .dst = At(own.dst, received.first, own.dtype),
          .rows = own.rows,
          .bytes = received.count * size,
          .src_stride = received.count * size,
          .dst_stride = own.count * parts * size},
         worker);
  }
}

void CopyWhole(const Collective& from, const Collective& to, int64_t count, const Worker& worker) {
  Copy({.src = from.src, .dst = to.dst, .rows = 1, .bytes = count * SizeOf(to.dtype)}, worker);
}

int64_t OthersOf(const std::vector<int64_t>& counts, int64_t count, int rank, int size) {
  if (counts.empty()) return count * (size - 1);
  int64_t sum = 0;
  for (int r = 0; r < size; ++r) sum += r == rank ? 0 : counts[static_cast<size_t>(r)];
  return sum;
}

}  // namespace

void DoPart(Ops ops, int rank, int threads, absl::FunctionRef<void()> beat) {
  const Worker worker = {threads, beat};
  const Collective& own = *ops[static_cast<size_t>(rank)];
  switch (own.kind) {
    case CollectiveKind::kAllReduce:
      return AllReduce(ops, rank, worker);
    case CollectiveKind::kAllGather:
      return AllGather(ops, rank, worker);
    case CollectiveKind::kReduceScatter:
      return ReduceScatter(ops, rank, worker);
    case CollectiveKind::kAllToAll:
      return AllToAll(ops, rank, worker);
    case CollectiveKind::kBroadcast:
      return CopyWhole(*ops[static_cast<size_t>(own.root)], own, own.count, worker);
    case CollectiveKind::kExchange:
      if (own.from >= 0) {
        CopyWhole(*ops[static_cast<size_t>(own.from)], own, own.receive_count, worker);
      }
      return;
    case CollectiveKind::kBarrier:
      return;
  }
}

CollectiveCounts DirectCounts(const Collective& op, int rank, int size) {
  CollectiveCounts counts = {.operations = 1};
  const int64_t peers = size - 1;
  switch (op.kind) {
    case CollectiveKind::kAllReduce: {
      const int64_t own = EvenPart(op.count, size, rank).count;
      counts.messages = 2 * peers;
      counts.elements = op.count - own + own * peers;
      break;
    }
    case CollectiveKind::kAllGather:
      counts.messages = peers;
      counts.elements = peers * op.rows * PartOf(op, rank).count;
      break;
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      counts.messages = peers;
      counts.elements = op.rows * OthersOf(op.counts, op.count, rank, size);
      break;
    case CollectiveKind::kBroadcast:
      counts.messages = rank == op.root ? peers : 0;
      counts.elements = counts.messages * op.count;
      break;
    case CollectiveKind::kExchange:
      counts.messages = op.to >= 0 && op.to != rank ? 1 : 0;
      counts.elements = counts.messages * op.count;
      break;
    case CollectiveKind::kBarrier:
      break;
  }
  counts.bytes = counts.elements * SizeOf(op.dtype);
  return counts;
}

}  // namespace colossus
