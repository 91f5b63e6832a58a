#include "collectives/algorithms/tree.h"

#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "collectives/reduce.h"

namespace colossus {
namespace {

// Where the range of `place` ends: places place + 1 .. are below it in the tree.
int RangeEnd(int place, int size) {
  return place == 0 ? size : std::min(size, place + (place & -place));
}

// The place above `place`, which is not 0.
int Parent(int place) { return place - (place & -place); }

absl::Status Broadcast(PointToPoint& link, int root, char* data, int64_t bytes, DType dtype) {
  const int size = link.size(), place = (link.rank() - root + size) % size;
  const auto rank_of = [&](int p) { return (p + root) % size; };
  if (place > 0) {
    link.Receive(rank_of(Parent(place)), {data, 1, bytes});
    RETURN_IF_ERROR(link.Wait());
  }
  // The largest subtree first.
  for (int i = TreeChildren(place, size) - 1; i >= 0; --i) {
    link.Send(rank_of(place + (1 << i)), {data, 1, bytes}, dtype);
  }
  return link.Wait();
}

}  // namespace

int TreeChildren(int place, int size) {
  int children = 0;
  while (place + (1 << children) < RangeEnd(place, size)) ++children;
  return children;
}

absl::Status TreeBroadcast(PointToPoint& link, const Collective& op) {
  const int64_t bytes = op.count * SizeOf(op.dtype);
  if (link.rank() == op.root && op.src != op.dst && bytes > 0) {
    std::memcpy(op.dst, op.src, static_cast<size_t>(bytes));
  }
  return Broadcast(link, op.root, static_cast<char*>(op.dst), bytes, op.dtype);
}

absl::Status TreeAllReduce(PointToPoint& link, const Collective& op) {
  const int rank = link.rank(), size = link.size();
  const DType wide = AccumulatorOf(op.dtype);
  const int64_t wide_bytes = op.count * SizeOf(wide), bytes = op.count * SizeOf(op.dtype);
  char* received = link.Scratch(2 * wide_bytes);
  char* sum = received + wide_bytes;
  Operand own = {op.src, false};
  const int children = TreeChildren(rank, size);
  for (int i = 0; i < children; ++i) {
    const int child = rank + (1 << i);
    const bool leaf = TreeChildren(child, size) == 0;
    link.Receive(child, {received, 1, leaf ? bytes : wide_bytes});
    RETURN_IF_ERROR(link.Wait());
    CombinePartials(op.dtype, op.reduction, own, {received, !leaf}, sum, op.count);
    own = {sum, true};
  }
  if (rank > 0) {
    link.Send(Parent(rank),
              {static_cast<const char*>(own.data), 1, own.partial ? wide_bytes : bytes},
              own.partial ? wide : op.dtype);
    RETURN_IF_ERROR(link.Wait());
  } else if (own.partial) {
    RoundPartials(op.dtype, own.data, op.dst, op.count);
  } else if (op.src != op.dst && bytes > 0) {
    std::memcpy(op.dst, op.src, static_cast<size_t>(bytes));
  }
  return Broadcast(link, 0, static_cast<char*>(op.dst), bytes, op.dtype);
}

absl::Status DisseminationBarrier(PointToPoint& link) {
  const int rank = link.rank(), size = link.size();
  for (int step = 1; step < size; step *= 2) {
    link.Send((rank + step) % size, {}, DType::kU8);
    link.Receive((rank - step + size) % size, {});
    RETURN_IF_ERROR(link.Wait());
  }
  return absl::OkStatus();
}

}  // namespace colossus
