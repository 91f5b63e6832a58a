#include "collectives/algorithms/recursive.h"

#include <bit>
#include <cstring>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "base/check.h"
#include "base/status.h"
#include "collectives/reduce.h"

namespace colossus {
namespace {

// Elements first .. end - 1 of a buffer.
struct Range {
  int64_t first = 0, end = 0;
  int64_t count() const { return end - first; }
};

int Steps(const PointToPoint& link) {
  const auto size = static_cast<unsigned>(link.size());
  CHECK(std::has_single_bit(size)) << size << " ranks";
  return std::countr_zero(size);
}

bool Bit(int rank, int i) { return (rank >> i) & 1; }

// own + received, in the order of the ranks: `received` comes from the rank across bit i.
void CombineAcross(const Collective& op, bool own_is_upper, const Operand& own,
                   const Operand& received, void* out, int64_t count) {
  if (own_is_upper) {
    CombinePartials(op.dtype, op.reduction, received, own, out, count);
  } else {
    CombinePartials(op.dtype, op.reduction, own, received, out, count);
  }
}

template <class Pointer>
Pointer At(Pointer data, int64_t element, DType dtype) {
  return data + element * SizeOf(dtype);
}

void CopyWhole(const Collective& op) {
  if (op.src == op.dst || op.count == 0) return;
  std::memcpy(op.dst, op.src, static_cast<size_t>(op.count * SizeOf(op.dtype)));
}

}  // namespace

absl::Status HalvingAllReduce(PointToPoint& link, const Collective& op) {
  const int rank = link.rank(), steps = Steps(link);
  if (steps == 0) return CopyWhole(op), absl::OkStatus();
  const DType wide = AccumulatorOf(op.dtype);
  char* dst = static_cast<char*>(op.dst);
  // Partial sums of type `op.dtype` live in dst itself.
  char* scratch =
      link.Scratch(SizeOf(wide) * (op.count / 2 + 1 + (wide == op.dtype ? 0 : op.count)));
  char* work = wide == op.dtype ? dst : At(scratch, op.count / 2 + 1, wide);
  const char* current = static_cast<const char*>(op.src);
  DType type = op.dtype;                                    // of what travels
  absl::InlinedVector<std::pair<Range, Range>, 16> ranges;  // kept and given, of every step
  Range kept = {0, op.count};
  for (int i = 0; i < steps; ++i) {
    const int64_t middle = kept.first + kept.count() / 2;
    Range lower = {kept.first, middle}, upper = {middle, kept.end};
    if (Bit(rank, i)) std::swap(lower, upper);
    kept = lower;
    ranges.push_back({kept, upper});
    const int64_t size = SizeOf(type);
    link.Send(rank ^ (1 << i), {At(current, upper.first, type), 1, upper.count() * size}, type);
    link.Receive(rank ^ (1 << i), {scratch, 1, kept.count() * size});
    RETURN_IF_ERROR(link.Wait());
    CombineAcross(op, Bit(rank, i), {At(current, kept.first, type), i > 0}, {scratch, i > 0},
                  At(work, kept.first, wide), kept.count());
    current = work;
    type = wide;
  }
  RoundPartials(op.dtype, At(work, kept.first, wide), At(dst, kept.first, op.dtype), kept.count());
  const int64_t size = SizeOf(op.dtype);
  for (int i = steps - 1; i >= 0; --i) {
    const auto& [have, lack] = ranges[static_cast<size_t>(i)];
    link.Send(rank ^ (1 << i), {At(dst, have.first, op.dtype), 1, have.count() * size}, op.dtype);
    link.Receive(rank ^ (1 << i), {At(dst, lack.first, op.dtype), 1, lack.count() * size});
    RETURN_IF_ERROR(link.Wait());
  }
  return absl::OkStatus();
}

absl::Status DoublingAllReduce(PointToPoint& link, const Collective& op) {
  const int rank = link.rank(), steps = Steps(link);
  if (steps == 0) return CopyWhole(op), absl::OkStatus();
  const DType wide = AccumulatorOf(op.dtype);
  const int64_t wide_bytes = op.count * SizeOf(wide);
  char* received = link.Scratch(2 * wide_bytes);
  char* work = wide == op.dtype ? static_cast<char*>(op.dst) : received + wide_bytes;
  const char* current = static_cast<const char*>(op.src);
  DType type = op.dtype;
  for (int i = 0; i < steps; ++i) {
    const int64_t bytes = op.count * SizeOf(type);
    link.Send(rank ^ (1 << i), {current, 1, bytes}, type);
    link.Receive(rank ^ (1 << i), {received, 1, bytes});
    RETURN_IF_ERROR(link.Wait());
    CombineAcross(op, Bit(rank, i), {current, i > 0}, {received, i > 0}, work, op.count);
    current = work;
    type = wide;
  }
  RoundPartials(op.dtype, work, op.dst, op.count);
  return absl::OkStatus();
}

absl::Status HalvingReduceScatter(PointToPoint& link, const Collective& op) {
  const int rank = link.rank(), steps = Steps(link);
  if (steps == 0) return CopyWhole(op), absl::OkStatus();
  const DType wide = AccumulatorOf(op.dtype);
  int64_t parts = link.size() / 2;  // kept in a step
  const int64_t half_bytes = parts * op.count * SizeOf(wide);
  char* received = link.Scratch(2 * half_bytes);
  char* work = received + half_bytes;
  const char* current = static_cast<const char*>(op.src);
  DType type = op.dtype;
  for (int i = 0; i < steps; ++i, parts /= 2) {
    // Of `current`, 2 * parts parts: every second one is kept.
    const int64_t bytes = op.count * SizeOf(type);
    const int own = Bit(rank, i) ? 1 : 0;
    link.Send(rank ^ (1 << i), {current + (1 - own) * bytes, parts, bytes, 2 * bytes}, type);
    link.Receive(rank ^ (1 << i), {received, 1, parts * bytes});
    RETURN_IF_ERROR(link.Wait());
    for (int64_t q = 0; q < parts; ++q) {
      CombineAcross(op, own == 1, {current + (2 * q + own) * bytes, i > 0},
                    {received + q * bytes, i > 0}, At(work, q * op.count, wide), op.count);
    }
    current = work;
    type = wide;
  }
  RoundPartials(op.dtype, work, op.dst, op.count);
  return absl::OkStatus();
}

absl::Status DoublingAllGather(PointToPoint& link, const Collective& op) {
  const int rank = link.rank(), steps = Steps(link);
  const int64_t bytes = op.count * SizeOf(op.dtype);
  char* dst = static_cast<char*>(op.dst);
  if (bytes > 0 && op.src != dst + rank * bytes) {
    std::memcpy(dst + rank * bytes, op.src, static_cast<size_t>(bytes));
  }
  for (int i = 0; i < steps; ++i) {
    const int64_t parts = int64_t{1} << i, have = rank & ~(parts - 1), lack = have ^ parts;
    link.Send(rank ^ (1 << i), {dst + have * bytes, 1, parts * bytes}, op.dtype);
    link.Receive(rank ^ (1 << i), {dst + lack * bytes, 1, parts * bytes});
    RETURN_IF_ERROR(link.Wait());
  }
  return absl::OkStatus();
}

}  // namespace colossus
