#include "collectives/testing/random_operation.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "collectives/operation.h"
#include "collectives/reference.h"

namespace colossus {
namespace {

// A stream of bits that costs next to nothing to start: tests fill many small buffers.
class Bits {
 public:
  explicit Bits(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u) {}
  uint64_t operator()() { return MixBits(state_ += 0x9e3779b97f4a7c15u); }

 private:
  uint64_t state_;
};

// Numbers of very different sizes, 2^-6 to 2^6, and both signs, so that sums round differently in
// every order.
double RandomValue(Bits& random) {
  const uint64_t bits = random();
  const uint64_t sign = bits & (uint64_t{1} << 63), mantissa = (bits & 0xfff) << 40;
  const uint64_t exponent = 1023 - 6 + ((bits >> 16) & 0xffff) % 12;
  return std::bit_cast<double>(sign | exponent << 52 | mantissa);
}

void Fill(DType dtype, std::vector<char>& bytes, Bits& random) {
  if (!IsFloat(dtype)) {
    for (char& byte : bytes) byte = static_cast<char>(random() % (dtype == DType::kBool ? 2 : 256));
    return;
  }
  DispatchDType(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
      const T value = FromDouble<T>(RandomValue(random));
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
}

// What rank `from` sends to rank `to` in an uneven all_to_all, or the part of rank `from` else.
int64_t UnevenCount(const CollectiveCase& shape, uint64_t seed, int from, int to) {
  Bits random(seed * 1000003 + static_cast<uint64_t>(from * 64 + to));
  return random() % 4 == 0
             ? 0
             : static_cast<int64_t>(random() % static_cast<uint64_t>(shape.count + 1));
}

std::vector<int64_t> Counts(const CollectiveCase& shape, uint64_t seed, int rank, bool received) {
  std::vector<int64_t> counts;
  const bool all_to_all = shape.kind == CollectiveKind::kAllToAll;
  for (int p = 0; p < shape.ranks; ++p) {
    counts.push_back(!all_to_all ? UnevenCount(shape, seed, p, 0)
                     : received  ? UnevenCount(shape, seed, p, rank)
                                 : UnevenCount(shape, seed, rank, p));
  }
  return counts;
}

Collective OperationOf(const CollectiveCase& shape, int rank, uint64_t seed) {
  Collective op;
  op.kind = shape.kind;
  op.dtype = shape.dtype;
  op.reduction = shape.reduction;
  op.count = shape.count;
  op.rows = shape.rows;
  op.root = shape.root;
  op.site = "conformance";
  if (shape.uneven) {
    op.counts = Counts(shape, seed, rank, false);
    if (shape.kind == CollectiveKind::kAllToAll) {
      op.receive_counts = Counts(shape, seed, rank, true);
    }
  }
  if (shape.kind == CollectiveKind::kExchange) {
    op.to = (rank + shape.shift) % shape.ranks;
    op.from = (rank + shape.ranks - shape.shift % shape.ranks) % shape.ranks;
    op.receive_count = shape.count;
  }
  return op;
}

void PlaceBuffers(const CollectiveCase& shape, int rank, RankBuffers& buffers) {
  Collective& op = buffers.operation;
  const int64_t own = PartOf(op, rank).first * SizeOf(op.dtype);
  op.src = buffers.src.data();
  op.dst = buffers.dst.data();
  if (!shape.in_place) return;
  // The shared buffer is the larger of the two; the content is that of src.
  if (shape.kind == CollectiveKind::kReduceScatter) {
    op.dst = buffers.src.data() + own;
  } else if (shape.kind == CollectiveKind::kAllGather) {
    std::copy(buffers.src.begin(), buffers.src.end(), buffers.dst.begin() + own);
    op.src = buffers.dst.data() + own;
  } else {
    std::copy(buffers.src.begin(), buffers.src.end(), buffers.dst.begin());
    op.src = buffers.dst.data();
  }
}

}  // namespace

std::string Describe(const CollectiveCase& shape) {
  return absl::StrCat(shape.ranks, " ranks: ", Describe(OperationOf(shape, 0, 0)),
                      shape.uneven ? ", uneven" : "", shape.in_place ? ", in place" : "");
}

std::vector<char> RankBuffers::Result() const {
  const char* dst = static_cast<const char*>(operation.dst);
  return dst == nullptr ? std::vector<char>() : std::vector<char>(dst, dst + result_bytes);
}

RankBuffers MakeBuffers(const CollectiveCase& shape, int rank, uint64_t seed) {
  RankBuffers buffers;
  Collective& op = buffers.operation;
  op = OperationOf(shape, rank, seed);
  const int64_t size = SizeOf(op.dtype);
  buffers.src.resize(static_cast<size_t>(SourceElements(op, rank, shape.ranks) * size));
  buffers.result_bytes = DestinationElements(op, rank, shape.ranks) * size;
  buffers.dst.assign(static_cast<size_t>(buffers.result_bytes), char{0x5a});
  Bits random(seed * 7919 + static_cast<uint64_t>(rank));
  Fill(op.dtype, buffers.src, random);
  PlaceBuffers(shape, rank, buffers);
  return buffers;
}

std::vector<std::vector<char>> ExpectedResults(const CollectiveCase& shape, uint64_t seed) {
  std::vector<RankBuffers> all;
  std::vector<Collective> operations;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    all.push_back(MakeBuffers(shape, rank, seed));
    operations.push_back(all.back().operation);
  }
  RunReference(operations);
  std::vector<std::vector<char>> results;
  for (const RankBuffers& buffers : all) results.push_back(buffers.Result());
  return results;
}

}  // namespace colossus
