#include "collectives/algorithms/pairwise.h"

#include <algorithm>
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "base/status.h"
#include "collectives/operation.h"
#include "collectives/reduce.h"

namespace colossus {
namespace {

constexpr int64_t kPieceBytes = 4 << 20;  // received at a time

template <class To, class From>
void CopyBlock(const BasicBlock<To>& to, const BasicBlock<From>& from) {
  if (from.data == to.data || from.bytes == 0) return;
  for (int64_t row = 0; row < from.rows; ++row) {
    std::memcpy(to.data + row * to.stride, from.data + row * from.stride,
                static_cast<size_t>(from.bytes));
  }
}

// Sends block `to(p)` to every other rank p and receives `from(p)` from it.
absl::Status ExchangeAll(PointToPoint& link, DType dtype, absl::FunctionRef<ConstBlock(int)> to,
                         absl::FunctionRef<Block(int)> from) {
  const int rank = link.rank(), size = link.size();
  for (int i = 1; i < size; ++i) {
    const int next = (rank + i) % size, last = (rank - i + size) % size;
    link.Send(next, to(next), dtype);
    link.Receive(last, from(last));
  }
  return link.Wait();
}

// A buffer that holds a part for every rank: in each of `rows` rows, all parts one after another.
struct Parts {
  int64_t rows = 1;
  int64_t row_elements = 0;
  absl::FunctionRef<PartRange(int)> part;  // in one row
};

// Piece k of the part of rank p: whole rows, or a part of one.
struct Piece {
  int64_t row = 0, rows = 1, first = 0, count = 0;
};
Piece PieceOf(const Parts& parts, int p, int64_t pieces, int64_t k) {
  const PartRange part = parts.part(p);
  if (pieces <= parts.rows) {
    const PartRange rows = EvenPart(parts.rows, static_cast<int>(pieces), static_cast<int>(k));
    return {rows.first, rows.count, part.first, part.count};
  }
  const int64_t cuts = pieces / parts.rows;  // of each row
  const PartRange range = EvenPart(part.count, static_cast<int>(cuts), static_cast<int>(k % cuts));
  return {k / cuts, 1, part.first + range.first, range.count};
}

ConstBlock BlockOf(const Parts& parts, const Piece& piece, const void* src, int64_t size) {
  const int64_t at = piece.row * parts.row_elements + piece.first;
  return {static_cast<const char*>(src) + at * size, piece.rows, piece.count * size,
          parts.row_elements * size};
}

// The reduction of this rank's part of all srcs, as packed rows, to dst.
absl::Status ReduceOwnPart(PointToPoint& link, const Collective& op, const Parts& parts,
                           void* dst) {
  const int rank = link.rank(), size = link.size();
  const int64_t bytes = SizeOf(op.dtype);
  int64_t largest = 0;
  for (int p = 0; p < size; ++p) largest = std::max(largest, parts.part(p).count);
  const int64_t pieces = PairwisePieces(parts.rows, largest, op.dtype, size);
  for (int64_t k = 0; k < pieces; ++k) {
    const Piece own = PieceOf(parts, rank, pieces, k);
    const int64_t own_bytes = own.rows * own.count * bytes;
    char* scratch = link.Scratch(own_bytes * size);
    RETURN_IF_ERROR(ExchangeAll(
        link, op.dtype,
        [&](int p) { return BlockOf(parts, PieceOf(parts, p, pieces, k), op.src, bytes); },
        [&](int p) {
          return Block{scratch + p * own_bytes, 1, own_bytes};
        }));
    const ConstBlock mine = BlockOf(parts, own, op.src, bytes);
    const PartRange part = parts.part(rank);
    const int64_t done = own.row * part.count + own.first - part.first;
    for (int64_t row = 0; row < own.rows; ++row) {
      absl::InlinedVector<const void*, 16> srcs;
      for (int p = 0; p < size; ++p) {
        srcs.push_back(p == rank ? mine.data + row * mine.stride
                                 : scratch + p * own_bytes + row * own.count * bytes);
      }
      void* out = static_cast<char*>(dst) + (done + row * own.count) * bytes;
      ReduceTree(op.dtype, op.reduction, srcs, {&out, 1}, {.count = own.count});
    }
  }
  return absl::OkStatus();
}

}  // namespace

int64_t PairwisePieces(int64_t rows, int64_t count, DType dtype, int size) {
  const int64_t row = count * SizeOf(dtype) * (size - 1);  // received for one
  if (row > kPieceBytes) return rows * std::min((row + kPieceBytes - 1) / kPieceBytes, count);
  const int64_t whole = row > 0 ? kPieceBytes / row : rows;  // rows of a piece
  return std::max<int64_t>(1, (rows + whole - 1) / std::max<int64_t>(1, whole));
}

absl::Status PairwiseReduceScatter(PointToPoint& link, const Collective& op) {
  const auto part = [&](int p) { return PartOf(op, p); };
  const Parts parts = {op.rows, op.rows > 1 ? op.count * link.size() : 0, part};
  return ReduceOwnPart(link, op, parts, op.dst);
}

absl::Status PairwiseAllReduce(PointToPoint& link, const Collective& op) {
  const int rank = link.rank(), size = link.size();
  const int64_t bytes = SizeOf(op.dtype);
  const auto part = [&](int p) { return EvenPart(op.count, size, p); };
  char* dst = static_cast<char*>(op.dst);
  RETURN_IF_ERROR(ReduceOwnPart(link, op, {1, 0, part}, dst + part(rank).first * bytes));
  const auto block = [&](int p) {
    return Block{dst + part(p).first * bytes, 1, part(p).count * bytes};
  };
  const Block own = block(rank);
  return ExchangeAll(
      link, op.dtype,
      [&](int) {
        return ConstBlock{own.data, 1, own.bytes};
      },
      block);
}

absl::Status PairwiseAllGather(PointToPoint& link, const Collective& op) {
  const int64_t bytes = SizeOf(op.dtype), size = link.size();
  const auto into = [&](int p) {
    const PartRange part = PartOf(op, p);
    return Block{static_cast<char*>(op.dst) + part.first * bytes, op.rows, part.count * bytes,
                 op.count * size * bytes};
  };
  const int64_t own_bytes = PartOf(op, link.rank()).count * bytes;
  const char* src = static_cast<const char*>(op.src);
  CopyBlock(into(link.rank()), ConstBlock{src, op.rows, own_bytes, own_bytes});
  return ExchangeAll(
      link, op.dtype,
      [&](int) {
        return ConstBlock{src, 1, op.rows * own_bytes};
      },
      into);
}

absl::Status PairwiseAllToAll(PointToPoint& link, const Collective& op) {
  const int64_t bytes = SizeOf(op.dtype), size = link.size();
  const auto sent = [&](int p) {
    const PartRange part = PartOf(op, p);
    return ConstBlock{static_cast<const char*>(op.src) + part.first * op.rows * bytes, op.rows,
                      part.count * bytes, part.count * bytes};
  };
  const auto into = [&](int p) {
    const PartRange part = ReceivedPartOf(op, p);
    return Block{static_cast<char*>(op.dst) + part.first * bytes, op.rows, part.count * bytes,
                 op.count * size * bytes};
  };
  CopyBlock(into(link.rank()), sent(link.rank()));
  return ExchangeAll(link, op.dtype, sent, into);
}

absl::Status PairwiseExchange(PointToPoint& link, const Collective& op) {
  const int64_t bytes = SizeOf(op.dtype);
  const ConstBlock sent = {static_cast<const char*>(op.src), 1, op.count * bytes};
  const Block received = {static_cast<char*>(op.dst), 1, op.receive_count * bytes};
  if (op.to == link.rank()) {
    CopyBlock(received, sent);
    return absl::OkStatus();
  }
  if (op.from >= 0) link.Receive(op.from, received);
  if (op.to >= 0) link.Send(op.to, sent, op.dtype);
  return link.Wait();
}

}  // namespace colossus
