// attention and its gradient, tile by tile: 64 query rows against 64 keys, never a whole row of
// scores. The query rows of a key/value head are those of all its query heads: row i * r + n is
// query i of the n-th head. A row meets the key tiles in order, so its bits depend on neither the
// split of the work nor the number of threads.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "base/random.h"
#include "tensor/kernels/cpu/attention_loops.h"
#include "tensor/kernels/cpu/convert_loops.h"
#include "tensor/kernels/cpu/plans.h"
#include "tensor/kernels/cpu/update_loops.h"
#include "tensor/ops/attention.h"

namespace colossus {
namespace {

constexpr int64_t kTile = 64;    // query rows and keys of a tile
constexpr int64_t kSpan = 512;   // query rows that share a packed key tile (forward)
constexpr int64_t kFewRows = 4;  // below: no turning of keys
constexpr int64_t kAhead = 16;   // positions
constexpr float kInfinity = std::numeric_limits<float>::infinity();

int64_t Padded(int64_t n) { return (n + 15) / 16 * 16; }

// Least and largest of some values.
struct Range {
  int32_t least, most;
};
Range RangeOf(const int32_t* values, int64_t n) {
  auto [least, most] = std::minmax_element(values, values + n);
  return {*least, *most};
}

enum class Visibility { kNone, kSome, kAll };

struct AttentionPlan {
  AttentionProblem p;
  DType dtype = DType::kF32;
  int64_t r = 1, rows = 0, dp = 0, ep = 0, slots = 1;  // r: query heads per key/value head
  int64_t slot_floats = 0;
  uint64_t site = 0;                       // of the dropout
  float rate = 0, keep_scale = 1;

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

  const void* Row(const void* data, int64_t row, int64_t n) const {
    return static_cast<const char*>(data) + row * n * SizeOf(dtype);
  }
  // One row to f32. Rows of one head lie far apart: the row `ahead` rows on is asked for.
  void LoadRow(const void* data, int64_t row, int64_t ahead, int64_t n, float* x) const {
    const char* next = static_cast<const char*>(Row(data, row + ahead, n));
    for (int64_t i = 0; i < n * SizeOf(dtype); i += 64) __builtin_prefetch(next + i);
    LoadRun(dtype, Row(data, row, n), x, n);
  }
  void LoadKeys(const void* data, int64_t b, int64_t g, int64_t j0, int64_t n, int64_t columns,
                float* tile, int64_t ld) const {
    for (int64_t j = 0; j < n; ++j) {
      LoadRow(data, KeyRow(b, g, j0 + j), kAhead * p.g, columns, tile + j * ld);
      std::fill(tile + j * ld + columns, tile + (j + 1) * ld, 0.0f);
    }
  }
  void StoreRow(const float* x, void* data, int64_t row, int64_t n) const {
    StoreRun(dtype, x, static_cast<char*>(data) + row * n * SizeOf(dtype), n);
  }

  // Factors of the probabilities of a tile, 0 or 1 / (1 - rate), for query rows from `row`.
  void DropoutFactors(const KernelArgs& args, int64_t b, int64_t g, int64_t row, int64_t m,
                      int64_t j0, int64_t n, float* factors) const {
    const int64_t* words = static_cast<const int64_t*>(args.operands[p.dropout_key]);
    const RandomKey key{static_cast<uint64_t>(words[0]), static_cast<uint64_t>(words[1])};
    const int64_t batch =
        *static_cast<const int64_t*>(args.operands[p.first_row]) + p.origin[0] + b;
    float ones[kTile];
    std::fill(ones, ones + kTile, 1.0f);
    for (int64_t i = 0; i < m; ++i) {
      const int64_t head = p.origin[2] + Head(g, row + i), query = p.origin[1] + (row + i) / r;
      const int64_t element =
          ((batch * p.global[2] + head) * p.global[1] + query) * p.key_global + p.key_origin + j0;
      Updates().dropout(ones, key, site, static_cast<uint64_t>(element), rate, keep_scale,
                        factors + i * kTile, n);
    }
  }
  // The slope of each query row's head.
  void Slopes(const KernelArgs& args, int64_t g, int64_t first, int64_t n, float* slopes) const {
    if (p.slopes < 0) return;
    const float* heads = static_cast<const float*>(args.operands[p.slopes]);
    for (int64_t i = 0; i < n; ++i) slopes[i] = heads[Head(g, first + i)];
  }

  void QueryPlaces(const KernelArgs& args, int64_t b, int64_t first, int64_t n, int32_t* positions,
                   int32_t* segments) const {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t s = (first + i) / r;
      positions[i] = p.q_positions < 0
                         ? static_cast<int32_t>(p.origin[1] + s)
                         : static_cast<const int32_t*>(args.operands[p.q_positions])[b * p.s + s];
      segments[i] = p.q_segments < 0
                        ? 0
                        : static_cast<const int32_t*>(args.operands[p.q_segments])[b * p.s + s];
    }
  }
  void KeyPlaces(const KernelArgs& args, int64_t b, int64_t first, int64_t n, int32_t* positions,
                 int32_t* segments) const {
    for (int64_t j = 0; j < n; ++j) {
      const int64_t t = first + j;
      positions[j] = p.k_positions < 0
                         ? static_cast<int32_t>(p.key_origin + t)
                         : static_cast<const int32_t*>(args.operands[p.k_positions])[b * p.t + t];
      segments[j] = p.k_segments < 0
                        ? 0
                        : static_cast<const int32_t*>(args.operands[p.k_segments])[b * p.t + t];
    }
  }

  // What of a tile is visible, by the ranges of positions and segments.
  Visibility See(Range q, Range k, Range qs, Range ks) const {
    const int64_t window = p.window > 0 ? p.window : std::numeric_limits<int64_t>::max();
    auto distance = [](int32_t a, int32_t b) { return static_cast<int64_t>(a) - b; };
    if (p.causal && k.least > q.most) return Visibility::kNone;
    if (distance(q.least, k.most) >= window) return Visibility::kNone;
    if (qs.most < ks.least || qs.least > ks.most) return Visibility::kNone;
    const bool one_segment = qs.least == qs.most && ks.least == ks.most;
    const bool all = one_segment && (!p.causal || k.most <= q.least) &&
                     distance(q.most, k.least) < window;
    return all ? Visibility::kAll : Visibility::kSome;
  }
};

// Query rows of one key/value head with what masks need, in a slot's workspace.
struct Places {
  int32_t* positions;
  int32_t* segments;
};

// Hands out parts of a slot's workspace.
class Carver {
 public:
  // nullptr: only counts.
  explicit Carver(float* base) : base_(base) {}
  float* Floats(int64_t n) {
    float* part = base_ == nullptr ? nullptr : base_ + used_;
    used_ += Padded(n);
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

// A key tile and the mask against a tile of query rows.
struct KeyTile {
  int64_t first = 0, n = 0;
  Places places;
  Range positions, segments;

  void Fill(const AttentionPlan& plan, const KernelArgs& args, int64_t b, int64_t j0,
            int64_t limit) {
    first = j0;
    n = std::min(kTile, limit - j0);
    plan.KeyPlaces(args, b, j0, n, places.positions, places.segments);
    positions = RangeOf(places.positions, n);
    segments = RangeOf(places.segments, n);
  }
  Visibility Seen(const AttentionPlan& plan, const Places& queries, int64_t i0, int64_t m) const {
    return plan.See(RangeOf(queries.positions + i0, m), positions,
                    RangeOf(queries.segments + i0, m), segments);
  }
  TileMask Mask(const AttentionPlan& plan, const Places& queries, int64_t i0) const {
    const bool segmented = plan.p.q_segments >= 0;
    return {.q_positions = queries.positions + i0,
            .k_positions = places.positions,
            .q_segments = segmented ? queries.segments + i0 : nullptr,
            .k_segments = segmented ? places.segments : nullptr,
            .causal = plan.p.causal,
            .window = static_cast<int32_t>(std::min<int64_t>(plan.p.window, 1 << 30))};
  }
};

// Forward: one unit is a span of query rows of one key/value head of one batch entry.
struct ForwardSlot {
  float *q, *out, *maxima, *sums, *slopes, *keys, *keys_turned, *values, *scores, *factors;
  Places places;
  KeyTile tile;

  ForwardSlot(const AttentionPlan& plan, Carver& carve) {
    const int64_t span = std::min(kSpan, plan.rows);
    q = carve.Floats(span * plan.dp);
    out = carve.Floats(span * plan.ep);
    maxima = carve.Floats(span);
    sums = carve.Floats(span);
    slopes = carve.Floats(plan.p.slopes >= 0 ? span : 0);
    factors = carve.Floats(plan.rate > 0 ? kTile * kTile : 0);
    keys = carve.Floats(kTile * plan.dp);
    keys_turned = carve.Floats(plan.dp * kTile);
    values = carve.Floats(kTile * plan.ep);
    scores = carve.Floats(kTile * kTile);
    places = carve.TakePlaces(span);
    tile.places = carve.TakePlaces(kTile);
  }
};

// From q.k to the scores of a tile; `tanh` is kept for the gradient.
void FinishScores(const AttentionPlan& plan, const KeyTile& tile, const Places& places,
                  const float* slopes, int64_t i0, int64_t m, Visibility seen, float* scores,
                  float* tanh) {
  const TileMask mask = tile.Mask(plan, places, i0);
  if (plan.p.softcap > 0) {
    Tiles().softcap(m, tile.n, static_cast<float>(plan.p.softcap), scores, tanh, kTile);
  }
  if (plan.p.slopes >= 0) Tiles().add_distances(m, tile.n, slopes + i0, mask, scores, kTile);
  if (seen == Visibility::kSome) Tiles().mask(m, tile.n, mask, scores, kTile);
}

// slot.factors holds the dropout of the tile, if there is one.
void ForwardTile(const AttentionPlan& plan, ForwardSlot& slot, int64_t i0, int64_t m,
                 Visibility seen, bool few) {
  const AttentionProblem& p = plan.p;
  const int64_t n = slot.tile.n;
  const float* q = slot.q + i0 * plan.dp;
  if (few) {
    Tiles().dots(m, n, p.d, q, plan.dp, slot.keys, plan.dp, slot.scores, kTile);
  } else {
    Tiles().gemm(m, Padded(n), p.d, q, plan.dp, 1, slot.keys_turned, kTile, slot.scores, kTile,
                 false);
  }
  FinishScores(plan, slot.tile, slot.places, slot.slopes, i0, m, seen, slot.scores, nullptr);
  float* out = slot.out + i0 * plan.ep;
  Tiles().online_softmax(m, n, slot.scores, kTile, slot.maxima + i0, slot.sums + i0, out, plan.ep);
  if (plan.rate > 0) Tiles().multiply(m, n, slot.scores, slot.factors, slot.scores, kTile);
  Tiles().gemm(m, plan.ep, n, slot.scores, kTile, 1, slot.values, plan.ep, out, plan.ep, true);
}

void ForwardUnit(const AttentionPlan& plan, const KernelArgs& args, int64_t b, int64_t g,
                 int64_t first, ForwardSlot& slot) {
  const AttentionProblem& p = plan.p;
  const int64_t rows = std::min(kSpan, plan.rows - first), limit = plan.Limit(args, b);
  const bool few = rows < kFewRows;
  for (int64_t i = 0; i < rows; ++i) {
    plan.LoadRow(args.operands[0], plan.QueryRow(b, g, first + i), kAhead * p.h, p.d,
                 slot.q + i * plan.dp);
    Tiles().scale(slot.q + i * plan.dp, static_cast<float>(p.scale), p.d);
  }
  std::fill(slot.out, slot.out + rows * plan.ep, 0.0f);
  std::fill(slot.maxima, slot.maxima + rows, -kInfinity);
  std::fill(slot.sums, slot.sums + rows, 0.0f);
  plan.QueryPlaces(args, b, first, rows, slot.places.positions, slot.places.segments);
  plan.Slopes(args, g, first, rows, slot.slopes);
  for (int64_t j0 = 0; j0 < limit; j0 += kTile) {
    slot.tile.Fill(plan, args, b, j0, limit);
    if (slot.tile.Seen(plan, slot.places, 0, rows) == Visibility::kNone) continue;
    plan.LoadKeys(args.operands[1], b, g, j0, slot.tile.n, p.d, slot.keys, plan.dp);
    plan.LoadKeys(args.operands[2], b, g, j0, slot.tile.n, p.e, slot.values, plan.ep);
    if (!few) Tiles().transpose(slot.tile.n, p.d, slot.keys, plan.dp, slot.keys_turned, kTile);
    for (int64_t i0 = 0; i0 < rows; i0 += kTile) {
      const int64_t m = std::min(kTile, rows - i0);
      const Visibility seen = slot.tile.Seen(plan, slot.places, i0, m);
      if (seen == Visibility::kNone) continue;
      if (plan.rate > 0) {
        plan.DropoutFactors(args, b, g, first + i0, m, j0, slot.tile.n, slot.factors);
      }
      ForwardTile(plan, slot, i0, m, seen, few);
    }
  }
  float* lse = static_cast<float*>(args.results[1]);
  for (int64_t i = 0; i < rows; ++i) {
    // A row that saw a key has a sum of at least 1, or NaN.
    const bool any = slot.sums[i] != 0.0f;
    float* out = slot.out + i * plan.ep;
    Tiles().scale(out, any ? 1.0f / slot.sums[i] : 0.0f, p.e);
    plan.StoreRow(out, args.results[0], plan.QueryRow(b, g, first + i), p.e);
    lse[plan.LseIndex(b, g, first + i)] =
        any ? slot.maxima[i] + std::log(slot.sums[i]) : -kInfinity;
  }
}

void RunForward(const AttentionPlan& plan, const KernelArgs& args) {
  const AttentionProblem& p = plan.p;
  const int64_t spans = (plan.rows + kSpan - 1) / kSpan, units = p.b * p.g * spans;
  // Units are dealt in turn: later spans of a causal row see more keys.
  const int64_t used = std::min(plan.slots, units);
  ParallelFor(used, 1, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      Carver carve(static_cast<float*>(args.workspace) + s * plan.slot_floats);
      ForwardSlot slot(plan, carve);
      for (int64_t unit = s; unit < units; unit += used) {
        const int64_t bg = unit / spans;
        ForwardUnit(plan, args, bg / p.g, bg % p.g, unit % spans * kSpan, slot);
      }
    }
  });
}

// Backward: one unit is a key/value head of a batch entry with all its query rows.
struct BackwardSlot {
  float *q, *dout, *dq, *lse, *mean, *buffer;
  float *keys, *keys_turned, *values, *values_turned, *dk, *dv, *scores, *dscores;
  float *slopes, *factors, *kept, *tanh;
  Places places;
  KeyTile tile;

  BackwardSlot(const AttentionPlan& plan, Carver& carve) {
    q = carve.Floats(plan.rows * plan.dp);
    dout = carve.Floats(plan.rows * plan.ep);
    dq = carve.Floats(plan.rows * plan.dp);
    lse = carve.Floats(plan.rows);
    mean = carve.Floats(plan.rows);
    buffer = carve.Floats(plan.ep);
    keys = carve.Floats(kTile * plan.dp);
    keys_turned = carve.Floats(plan.dp * kTile);
    values = carve.Floats(kTile * plan.ep);
    values_turned = carve.Floats(plan.ep * kTile);
    dk = carve.Floats(kTile * plan.dp);
    dv = carve.Floats(kTile * plan.ep);
    scores = carve.Floats(kTile * kTile);
    dscores = carve.Floats(kTile * kTile);
    slopes = carve.Floats(plan.p.slopes >= 0 ? plan.rows : 0);
    factors = carve.Floats(plan.rate > 0 ? kTile * kTile : 0);
    kept = carve.Floats(plan.rate > 0 ? kTile * kTile : 0);
    tanh = carve.Floats(plan.p.softcap > 0 ? kTile * kTile : 0);
    places = carve.TakePlaces(plan.rows);
    tile.places = carve.TakePlaces(kTile);
  }
};

void LoadQueries(const AttentionPlan& plan, const KernelArgs& args, int64_t b, int64_t g,
                 BackwardSlot& slot) {
  const AttentionProblem& p = plan.p;
  const float* lse = static_cast<const float*>(args.operands[5]);
  for (int64_t i = 0; i < plan.rows; ++i) {
    const int64_t row = plan.QueryRow(b, g, i);
    float* q = slot.q + i * plan.dp;
    float* dout = slot.dout + i * plan.ep;
    plan.LoadRow(args.operands[1], row, kAhead * p.h, p.d, q);
    // Padding columns enter products whose results are not used, but must not slow them.
    std::fill(q + p.d, q + plan.dp, 0.0f);
    Tiles().scale(q, static_cast<float>(p.scale), p.d);
    plan.LoadRow(args.operands[0], row, kAhead * p.h, p.e, dout);
    std::fill(dout + p.e, dout + plan.ep, 0.0f);
    plan.LoadRow(args.operands[4], row, kAhead * p.h, p.e, slot.buffer);
    slot.mean[i] = Tiles().dot(dout, slot.buffer, p.e);
    // A query without keys: exp(score - infinity) = 0.
    const float value = lse[plan.LseIndex(b, g, i)];
    slot.lse[i] = value == -kInfinity ? kInfinity : value;
  }
  std::fill(slot.dq, slot.dq + plan.rows * plan.dp, 0.0f);
  plan.QueryPlaces(args, b, 0, plan.rows, slot.places.positions, slot.places.segments);
  plan.Slopes(args, g, 0, plan.rows, slot.slopes);
}

void BackwardTile(const AttentionPlan& plan, BackwardSlot& slot, int64_t i0, int64_t m,
                  Visibility seen) {
  const AttentionProblem& p = plan.p;
  const int64_t n = slot.tile.n, dp = plan.dp, ep = plan.ep;
  const float* q = slot.q + i0 * dp;
  const float* dout = slot.dout + i0 * ep;
  Tiles().gemm(m, Padded(n), p.d, q, dp, 1, slot.keys_turned, kTile, slot.scores, kTile, false);
  FinishScores(plan, slot.tile, slot.places, slot.slopes, i0, m, seen, slot.scores, slot.tanh);
  Tiles().probabilities(m, n, slot.lse + i0, slot.scores, kTile);
  const bool drops = plan.rate > 0;
  if (drops) Tiles().multiply(m, n, slot.scores, slot.factors, slot.kept, kTile);
  Tiles().gemm(n, ep, m, drops ? slot.kept : slot.scores, 1, kTile, dout, ep, slot.dv, ep, true);
  Tiles().gemm(m, Padded(n), p.e, dout, ep, 1, slot.values_turned, kTile, slot.dscores, kTile,
               false);
  if (drops) Tiles().multiply(m, n, slot.dscores, slot.factors, slot.dscores, kTile);
  Tiles().score_gradients(m, n, slot.scores, slot.mean + i0, slot.dscores, kTile);
  if (p.softcap > 0) Tiles().softcap_gradient(m, n, slot.tanh, slot.dscores, kTile);
  Tiles().gemm(n, dp, m, slot.dscores, 1, kTile, q, dp, slot.dk, dp, true);
  Tiles().gemm(m, dp, n, slot.dscores, kTile, 1, slot.keys, dp, slot.dq + i0 * dp, dp, true);
}

void BackwardKeys(const AttentionPlan& plan, const KernelArgs& args, int64_t b, int64_t g,
                  int64_t j0, int64_t limit, BackwardSlot& slot) {
  const AttentionProblem& p = plan.p;
  const int64_t existing = std::max<int64_t>(0, std::min(kTile, limit - j0));
  std::fill(slot.dk, slot.dk + kTile * plan.dp, 0.0f);
  std::fill(slot.dv, slot.dv + kTile * plan.ep, 0.0f);
  if (existing > 0) {
    slot.tile.Fill(plan, args, b, j0, limit);
    plan.LoadKeys(args.operands[2], b, g, j0, existing, p.d, slot.keys, plan.dp);
    plan.LoadKeys(args.operands[3], b, g, j0, existing, p.e, slot.values, plan.ep);
    Tiles().transpose(existing, p.d, slot.keys, plan.dp, slot.keys_turned, kTile);
    Tiles().transpose(existing, p.e, slot.values, plan.ep, slot.values_turned, kTile);
    for (int64_t i0 = 0; i0 < plan.rows; i0 += kTile) {
      const int64_t m = std::min(kTile, plan.rows - i0);
      const Visibility seen = slot.tile.Seen(plan, slot.places, i0, m);
      if (seen == Visibility::kNone) continue;
      if (plan.rate > 0) plan.DropoutFactors(args, b, g, i0, m, j0, existing, slot.factors);
      BackwardTile(plan, slot, i0, m, seen);
    }
  }
  for (int64_t j = 0; j < std::min(kTile, p.t - j0); ++j) {
    const int64_t row = plan.KeyRow(b, g, j0 + j);
    plan.StoreRow(slot.dk + j * plan.dp, args.results[1], row, p.d);
    plan.StoreRow(slot.dv + j * plan.ep, args.results[2], row, p.e);
  }
}

void RunBackward(const AttentionPlan& plan, const KernelArgs& args) {
  const AttentionProblem& p = plan.p;
  ParallelSlots(plan.slots, p.b * p.g, 1, [&](int64_t s, int64_t begin, int64_t end) {
    Carver carve(static_cast<float*>(args.workspace) + s * plan.slot_floats);
    BackwardSlot slot(plan, carve);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t b = unit / p.g, g = unit % p.g, limit = plan.Limit(args, b);
      LoadQueries(plan, args, b, g, slot);
      for (int64_t j0 = 0; j0 < p.t; j0 += kTile) BackwardKeys(plan, args, b, g, j0, limit, slot);
      for (int64_t i = 0; i < plan.rows; ++i) {
        float* dq = slot.dq + i * plan.dp;
        Tiles().scale(dq, static_cast<float>(p.scale), p.d);
        plan.StoreRow(dq, args.results[0], plan.QueryRow(b, g, i), p.d);
      }
    }
  });
}

absl::StatusOr<std::shared_ptr<AttentionPlan>> Describe(const KernelRequest& request, int fixed) {
  for (int i = 0; i < fixed; ++i) {
    if (!IsSmallFloat(request.operands[i].dtype)) return Decline("computes in f32 only");
  }
  auto plan = std::make_shared<AttentionPlan>();
  plan->p = DescribeAttention({request.operands, *request.attributes}, fixed);
  const AttentionProblem& p = plan->p;
  if (p.bias >= 0) return Decline("bias");
  if (request.results[0].elements() == 0 || request.operands[fixed - 3].elements() == 0 ||
      p.t == 0 || p.e == 0 || p.d == 0) {
    return Decline("nothing to compute");
  }
  plan->dtype = request.operands[0].dtype;
  plan->r = p.h / p.g;
  plan->rows = p.s * plan->r;
  plan->dp = Padded(p.d);
  plan->ep = Padded(p.e);
  plan->slots = request.threads;
  if (p.dropout_rate > 0) {
    plan->site = SiteId(request.attributes->String("site"));
    plan->rate = static_cast<float>(std::ceil(p.dropout_rate * 0x1p+24) * 0x1p-24);
    plan->keep_scale = static_cast<float>(1 / (1 - p.dropout_rate));
  }
  return plan;
}

}  // namespace

absl::StatusOr<PlannedKernel> PlanAttention(const KernelRequest& request) {
  absl::StatusOr<std::shared_ptr<AttentionPlan>> made = Describe(request, 3);
  if (!made.ok()) return made.status();
  std::shared_ptr<AttentionPlan> plan = *made;
  Carver measure(nullptr);
  ForwardSlot slot(*plan, measure);
  plan->slot_floats = measure.used();
  PlannedKernel planned;
  planned.workspace_bytes = plan->slots * plan->slot_floats * static_cast<int64_t>(sizeof(float));
  planned.run = [plan](const KernelArgs& args) { RunForward(*plan, args); };
  return planned;
}

absl::StatusOr<PlannedKernel> PlanAttentionGrad(const KernelRequest& request) {
  absl::StatusOr<std::shared_ptr<AttentionPlan>> made = Describe(request, 6);
  if (!made.ok()) return made.status();
  std::shared_ptr<AttentionPlan> plan = *made;
  Carver measure(nullptr);
  BackwardSlot slot(*plan, measure);
  plan->slot_floats = measure.used();
  PlannedKernel planned;
  planned.workspace_bytes = plan->slots * plan->slot_floats * static_cast<int64_t>(sizeof(float));
  planned.run = [plan](const KernelArgs& args) { RunBackward(*plan, args); };
  return planned;
}

}  // namespace colossus
