// AttentionPlan: what the tile loops of attention and of its gradient share.
//
// Purpose: internal to attention.cc and attention_grad.cc: extents, the places of rows, masks and
// the operand forms of tiles. A tile is up to 64 query rows against up to 64 keys; the query rows
// of a key/value head are those of all its query heads: row i * r + n is query i of its n-th head.
// Elements: products take f32 values or, where the CPU multiplies them, pairs of bf16 values; both
// are 32 bits and lie in float buffers. Sums and everything between products are f32.
// Thread-safety: constant once planned. Ownership: tiles view a thread's workspace.
#ifndef COLOSSUS_TENSOR_KERNELS_CPU_ATTENTION_PLAN_H_
#define COLOSSUS_TENSOR_KERNELS_CPU_ATTENTION_PLAN_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>

#include "tensor/kernels/cpu/attention_loops.h"
#include "tensor/kernels/cpu/convert_loops.h"
#include "tensor/kernels/cpu/plans.h"
#include "tensor/ops/attention.h"

namespace colossus {

constexpr int64_t kTile = 64;   // query rows and keys of a tile
constexpr int64_t kStrip = 16;  // rows or keys by which a tile that is partly seen is trimmed
constexpr int64_t kSlotBytes = int64_t{2} << 20;  // the most workspace of a thread
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Least and largest of some values.
struct IndexRange {
  int32_t least, most;
};
inline IndexRange RangeOf(const int32_t* values, int64_t n) {
  IndexRange range{values[0], values[0]};
  for (int64_t i = 1; i < n; ++i) {
    range.least = std::min(range.least, values[i]);
    range.most = std::max(range.most, values[i]);
  }
  return range;
}

enum class Visibility { kNone, kSome, kAll };

// Positions and segments of rows or keys, in a thread's workspace.
struct Places {
  int32_t* positions;
  int32_t* segments;
};

struct AttentionPlan {
  AttentionProblem p;
  DType dtype = DType::kF32, bias_dtype = DType::kF32;
  bool pairs = false;  // products of bf16 pairs
  // r: query heads per key/value head; rows: query rows of one; dp, ep: d and e, padded to 16.
  int64_t r = 1, rows = 0, dp = 0, ep = 0, slots = 1;
  int64_t slot_floats = 0;
  int64_t span = 0;  // query rows (forward) or keys (gradient) that are packed together
  uint64_t site = 0;  // of the dropout
  float rate = 0, keep_scale = 1;

  // Elements of `n` terms of a product's sum, and of a padded row.
  int64_t Terms(int64_t n) const { return pairs ? (n + 1) / 2 : n; }
  int64_t RowElements(int64_t padded) const { return pairs ? padded / 2 : padded; }
  float scale() const { return static_cast<float>(p.scale); }

  // Keys of batch entry b that exist.
  int64_t Limit(const KernelArgs& args, int64_t b) const {
    if (p.kv_length < 0) return p.t;
    const int64_t length = static_cast<const int32_t*>(args.operands[p.kv_length])[b];
    return std::clamp<int64_t>(length - p.key_origin, 0, p.t);
  }

  int64_t Head(int64_t g, int64_t row) const { return g * r + row % r; }
  int64_t QueryRow(int64_t b, int64_t g, int64_t row) const {
    return (b * p.s + row / r) * p.h + Head(g, row);
  }
  int64_t KeyRow(int64_t b, int64_t g, int64_t j) const { return (b * p.t + j) * p.g + g; }
  int64_t LseIndex(int64_t b, int64_t g, int64_t row) const {
    return (b * p.h + Head(g, row)) * p.s + row / r;
  }
  // The first element of a row's bias over all keys.
  int64_t BiasIndex(int64_t b, int64_t g, int64_t row) const {
    return LseIndex(p.bias_per_batch ? b : 0, g, row) * p.t;
  }

  const void* Row(const void* data, int64_t row, int64_t n) const {
    return static_cast<const char*>(data) + row * n * SizeOf(dtype);
  }
  void StoreRow(const float* x, void* data, int64_t row, int64_t n) const {
    StoreRun(dtype, x, static_cast<char*>(data) + row * n * SizeOf(dtype), n);
  }

  // One row of n values as `padded` values of elements, the padding 0. Rows of one head lie far
  // apart: the row `ahead` rows on is asked for.
  void LoadRow(const void* data, int64_t row, int64_t ahead, int64_t n, int64_t padded,
               float* x) const;
  // Keys [j0, j0 + n) of an operand with rows of `columns` values.
  void LoadKeys(const void* data, int64_t b, int64_t g, int64_t j0, int64_t n, int64_t columns,
                int64_t padded, float* tile) const;
  void LoadQueries(const void* data, int64_t b, int64_t g, int64_t first, int64_t n,
                   int64_t columns, int64_t padded, float* tile) const;
  // Elements along the columns of loaded rows x[n, columns], turned: y[Terms(columns), kTile].
  void Turn(int64_t n, int64_t columns, int64_t padded, const float* x, float* y) const {
    Tiles().transpose(n, Terms(columns), x, RowElements(padded), y, kTile);
  }
  // Loaded rows with elements down the columns: x itself or, of pairs, `folded`.
  const float* Fold(int64_t n, int64_t padded, const float* x, float* folded) const;
  void Product(int64_t m, int64_t n, int64_t terms, const float* a, int64_t row_stride,
               int64_t column_stride, const float* b, int64_t ldb, float* c, int64_t ldc,
               bool accumulate, float factor) const {
    (pairs ? Pairs().gemm : Tiles().gemm)(m, n, Terms(terms), a, row_stride, column_stride, b, ldb,
                                          c, ldc, accumulate, factor);
  }

  // Factors of the probabilities of a tile, 0 or 1 / (1 - rate), for query rows from `row`, by the
  // positions of the rows and of the tile's keys.
  void DropoutFactors(const KernelArgs& args, int64_t b, int64_t g, int64_t row, int64_t m,
                      const int32_t* q_positions, const int32_t* k_positions, int64_t n,
                      float* factors) const;
  // The slope of each query row's head.
  void Slopes(const KernelArgs& args, int64_t g, int64_t first, int64_t n, float* slopes) const;
  // The bias of a tile, in f32.
  void Bias(const KernelArgs& args, int64_t b, int64_t g, int64_t row, int64_t m, int64_t j0,
            int64_t n, float* tile) const;

  void QueryPlaces(const KernelArgs& args, int64_t b, int64_t first, int64_t n,
                   const Places& places) const;
  void KeyPlaces(const KernelArgs& args, int64_t b, int64_t first, int64_t n,
                 const Places& places) const;
  // What of a tile is visible, by the ranges of positions and segments.
  Visibility See(IndexRange q, IndexRange k, IndexRange qs, IndexRange ks) const;
};

// The plan of a call with `fixed` operands before the optional ones. Unimplemented: declined.
absl::StatusOr<std::shared_ptr<AttentionPlan>> DescribePlan(const KernelRequest& request,
                                                            int fixed);

// Hands out parts of a slot's workspace.
class Carver {
 public:
  // nullptr: only counts.
  explicit Carver(float* base) : base_(base) {}
  float* Floats(int64_t n) {
    float* part = base_ == nullptr ? nullptr : base_ + used_;
    used_ += PaddedFloats(n);
    return part;
  }
  Places TakePlaces(int64_t n) {
    return {reinterpret_cast<int32_t*>(Floats(n)), reinterpret_cast<int32_t*>(Floats(n))};
  }
  int64_t used() const { return used_; }  // floats

 private:
  float* base_;
  int64_t used_ = 0;
};

// Keys [first, first + n) and where they stand.
struct KeyTile {
  int64_t first = 0, n = 0;
  Places places;
  IndexRange positions, segments;
  IndexRange strip_positions[kTile / kStrip], strip_segments[kTile / kStrip];

  void Fill(const AttentionPlan& plan, const KernelArgs& args, int64_t b, int64_t j0,
            int64_t limit);
  Visibility Seen(const AttentionPlan& plan, const Places& queries, int64_t i0, int64_t m) const;
  TileMask Mask(const AttentionPlan& plan, const Places& queries, int64_t row,
                int64_t column) const;
};

// Rows [row, row + rows) of a tile against its columns [low, high): what is seen lies inside.
struct Strip {
  int64_t row, rows, low, high;
  bool masked;  // something inside is not seen
};

// The part of a tile that is seen, by strips of its query rows, and by strips of its keys (`row`
// counts keys then, and low and high query rows). Products leave the rest out.
struct TileStrips {
  int rows = 0, keys = 0;
  Strip of_rows[kTile / kStrip], of_keys[kTile / kStrip];

  TileStrips(const AttentionPlan& plan, const KeyTile& tile, const Places& queries, int64_t i0,
             int64_t m, Visibility seen);
};

// From scale * q.k to the scores of a strip: `scores`, `bias` and `tanh` (kept for the gradient;
// nullptr: not wanted) are tiles.
void FinishScores(const AttentionPlan& plan, const KeyTile& tile, const Places& queries,
                  const float* slopes, int64_t i0, const Strip& strip, const float* bias,
                  float* scores, float* tanh);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_CPU_ATTENTION_PLAN_H_
