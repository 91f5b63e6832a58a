#include "collectives/cost.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "collectives/algorithms/pairwise.h"
#include "collectives/algorithms/tree.h"
#include "collectives/direct.h"
#include "collectives/operation.h"
#include "collectives/reduce.h"

namespace colossus {
namespace {

// Longer operations are done in pieces by pairwise exchange, whose received parts stay in caches;
// the recursive algorithms would need as much memory again as the operation has.
constexpr int64_t kRecursiveBytes = 8 << 20;

int64_t CeilLog2(int64_t size) { return std::bit_width(static_cast<uint64_t>(size - 1)); }

// Elements of the whole buffer.
int64_t WholeElements(const Collective& op, int size) {
  return std::max(SourceElements(op, op.root, size), DestinationElements(op, op.root, size));
}

bool IsRecursive(const Collective& op, int size) {
  if (!std::has_single_bit(static_cast<unsigned>(size))) return false;
  if (op.rows != 1 || !op.counts.empty()) return false;
  return WholeElements(op, size) * SizeOf(AccumulatorOf(op.dtype)) <= kRecursiveBytes;
}

CollectiveCounts Finish(CollectiveCounts counts, DType dtype, int64_t wide_elements = 0) {
  counts.operations = 1;
  counts.bytes = counts.elements * SizeOf(dtype) +
                 wide_elements * (SizeOf(AccumulatorOf(dtype)) - SizeOf(dtype));
  return counts;
}

// What one rank sends in a recursive halving of n elements, by its bits (recursive.h).
CollectiveCounts HalvingAllReduceCounts(const Collective& op, int rank, int size) {
  CollectiveCounts counts;
  int64_t kept = op.count, wide = 0;
  for (int i = 0; (1 << i) < size; ++i) {
    const int64_t lower = kept / 2, upper = kept - lower;
    const bool bit = (rank >> i) & 1;
    const int64_t given = bit ? lower : upper;
    kept = bit ? upper : lower;
    counts.messages += 2;
    counts.elements += given + kept;  // given now, kept on the way back
    wide += i > 0 ? given : 0;
  }
  return Finish(counts, op.dtype, wide);
}

CollectiveCounts RecursiveCounts(Algorithm algorithm, const Collective& op, int rank, int size) {
  const int64_t steps = CeilLog2(size), parts = size;
  if (op.kind == CollectiveKind::kAllReduce) {
    if (algorithm == Algorithm::kHalving) return HalvingAllReduceCounts(op, rank, size);
    return Finish({.messages = steps, .elements = steps * op.count}, op.dtype,
                  std::max<int64_t>(0, steps - 1) * op.count);
  }
  CollectiveCounts counts = {.messages = steps, .elements = (parts - 1) * op.count};
  const bool halving = op.kind == CollectiveKind::kReduceScatter;
  return Finish(counts, op.dtype, halving ? (parts / 2 - 1) * op.count * (size > 1) : 0);
}

CollectiveCounts TreeCounts(const Collective& op, int rank, int size) {
  if (op.kind == CollectiveKind::kBarrier) {
    return Finish({.messages = CeilLog2(size)}, op.dtype);
  }
  const int64_t children = TreeChildren((rank - op.root + size) % size, size);
  CollectiveCounts counts = {.messages = children, .elements = children * op.count};
  int64_t wide = 0;
  if (op.kind == CollectiveKind::kAllReduce && rank > 0) {
    ++counts.messages;
    counts.elements += op.count;
    wide = children > 0 ? op.count : 0;
  }
  return Finish(counts, op.dtype, wide);
}

// Pieces of a reduction by pairwise exchange; 1 for all else.
int64_t Pieces(const Collective& op, int size) {
  if (op.kind == CollectiveKind::kAllReduce) {
    return PairwisePieces(1, EvenPart(op.count, size, 0).count, op.dtype, size);
  }
  if (op.kind != CollectiveKind::kReduceScatter) return 1;
  const int64_t largest =
      op.counts.empty() ? op.count : *std::max_element(op.counts.begin(), op.counts.end());
  return PairwisePieces(op.rows, largest, op.dtype, size);
}

// Bytes that one rank adds, and how many messages follow one another.
struct Path {
  double messages = 0, bytes = 0, added = 0;
};
Path PathOf(Algorithm algorithm, const Collective& op, int size) {
  const double s = static_cast<double>(SizeOf(op.dtype));
  const double a = static_cast<double>(SizeOf(AccumulatorOf(op.dtype)));
  const double n = static_cast<double>(WholeElements(op, size));
  const double steps = static_cast<double>(CeilLog2(size)), share = (size - 1.0) / size;
  const bool all_reduce = op.kind == CollectiveKind::kAllReduce;
  if (algorithm == Algorithm::kTree) {
    if (!all_reduce) return {steps, steps * n * s, 0};
    return {2 * steps, steps * n * (a + s), steps * n * a};
  }
  // The rank that sends most stands for all.
  const CollectiveCounts most = CountsOf(algorithm, op, 0, size);
  const bool adds = all_reduce || op.kind == CollectiveKind::kReduceScatter;
  Path path = {static_cast<double>(most.messages), static_cast<double>(most.bytes),
               adds ? share * n * s : 0};
  if (algorithm == Algorithm::kDoubling && all_reduce) path.added = steps * n * a;
  if (algorithm == Algorithm::kDirect) {
    path.messages = op.kind == CollectiveKind::kExchange ? 1 : 2;  // all come, all are done
    if (op.kind == CollectiveKind::kBroadcast) path.bytes = n * s;
  }
  return path;
}

}  // namespace

absl::string_view Name(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kDirect:
      return "direct";
    case Algorithm::kPairwise:
      return "pairwise exchange";
    case Algorithm::kHalving:
      return "recursive halving";
    case Algorithm::kDoubling:
      return "recursive doubling";
    case Algorithm::kTree:
      return "tree";
  }
  CHECK(false) << "unknown algorithm";
  return "";
}

bool CanDo(Algorithm algorithm, const Collective& op, int size) {
  const CollectiveKind kind = op.kind;
  switch (algorithm) {
    case Algorithm::kDirect:
      return true;
    case Algorithm::kPairwise:
      return kind != CollectiveKind::kBroadcast && kind != CollectiveKind::kBarrier;
    case Algorithm::kHalving:
      return (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter) &&
             IsRecursive(op, size);
    case Algorithm::kDoubling:
      return (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kAllGather) &&
             IsRecursive(op, size);
    case Algorithm::kTree:
      return kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kBarrier ||
             kind == CollectiveKind::kAllReduce;
  }
  return false;
}

CollectiveCounts CountsOf(Algorithm algorithm, const Collective& op, int rank, int size) {
  CHECK(CanDo(algorithm, op, size)) << Name(algorithm) << " cannot do " << Describe(op);
  if (algorithm == Algorithm::kTree) return TreeCounts(op, rank, size);
  if (algorithm == Algorithm::kHalving || algorithm == Algorithm::kDoubling) {
    return RecursiveCounts(algorithm, op, rank, size);
  }
  CollectiveCounts counts = DirectCounts(op, rank, size);
  const int64_t pieces = algorithm == Algorithm::kPairwise ? Pieces(op, size) : 1;
  if (op.kind == CollectiveKind::kAllReduce) {
    counts.messages = (pieces + 1) * (size - 1);
  } else {
    counts.messages *= pieces;
  }
  return counts;
}

CollectiveCost CostOf(Algorithm algorithm, const Collective& op, int size, const LinkRates& rates) {
  CollectiveCost cost;
  if (size == 1) return cost;
  const Path path = PathOf(algorithm, op, size);
  cost.seconds = path.messages * rates.alpha + path.bytes * rates.beta + path.added * rates.gamma;
  const int busiest = op.kind == CollectiveKind::kBroadcast ? op.root : 0;
  const CollectiveCounts counts = CountsOf(algorithm, op, busiest, size);
  cost.messages = counts.messages;
  cost.elements = counts.elements;
  cost.bytes = counts.bytes;
  return cost;
}

Algorithm ChooseAlgorithm(const Collective& op, int size, const LinkRates& rates) {
  Algorithm best = Algorithm::kPairwise;
  double seconds = HUGE_VAL;
  for (Algorithm algorithm : kMessageAlgorithms) {
    if (!CanDo(algorithm, op, size)) continue;
    const double candidate = CostOf(algorithm, op, size, rates).seconds;
    if (candidate >= seconds) continue;
    best = algorithm;
    seconds = candidate;
  }
  return best;
}

double CollectiveSeconds(CollectiveKind kind, DType dtype, int64_t elements, int size,
                         const LinkRates& rates) {
  if (size == 1) return 0;
  Collective op;
  op.kind = kind;
  op.dtype = dtype;
  const bool parts = kind == CollectiveKind::kAllGather || kind == CollectiveKind::kReduceScatter ||
                     kind == CollectiveKind::kAllToAll;
  op.count = parts ? (elements + size - 1) / size : elements;
  if (kind == CollectiveKind::kExchange) {
    op.to = op.from = 1;
    op.receive_count = op.count;
  }
  return CostOf(ChooseAlgorithm(op, size, rates), op, size, rates).seconds;
}

}  // namespace colossus
