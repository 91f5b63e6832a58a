#include "tensor/kernels/cpu/attention_plan.h"

#include <cstring>

#include "base/random.h"
#include "tensor/kernels/cpu/update_loops.h"

namespace colossus {
namespace {

constexpr int64_t kAhead = 16;   // rows
constexpr int64_t kFewRows = 4;  // below: pairs do not pay

}  // namespace

void AttentionPlan::LoadRow(const void* data, int64_t row, int64_t ahead, int64_t n,
                            int64_t padded, float* x) const {
  const char* next = static_cast<const char*>(Row(data, row + ahead, n));
  for (int64_t i = 0; i < n * SizeOf(dtype); i += 64) __builtin_prefetch(next + i);
  if (pairs) {
    char* bytes = reinterpret_cast<char*>(x);
    std::memcpy(bytes, Row(data, row, n), n * 2);
    std::memset(bytes + n * 2, 0, (padded - n) * 2);
  } else {
    LoadRun(dtype, Row(data, row, n), x, n);
    std::fill(x + n, x + padded, 0.0f);
  }
}

void AttentionPlan::LoadKeys(const void* data, int64_t b, int64_t g, int64_t j0, int64_t n,
                             int64_t columns, int64_t padded, float* tile) const {
  for (int64_t j = 0; j < n; ++j) {
    LoadRow(data, KeyRow(b, g, j0 + j), kAhead * p.g, columns, padded,
            tile + j * RowElements(padded));
  }
}

void AttentionPlan::LoadQueries(const void* data, int64_t b, int64_t g, int64_t first, int64_t n,
                                int64_t columns, int64_t padded, float* tile) const {
  for (int64_t i = 0; i < n; ++i) {
    LoadRow(data, QueryRow(b, g, first + i), kAhead * p.h, columns, padded,
            tile + i * RowElements(padded));
  }
}

const float* AttentionPlan::Fold(int64_t n, int64_t padded, const float* x, float* folded) const {
  if (!pairs) return x;
  Pairs().fold(n, padded, reinterpret_cast<const BF16*>(x), padded, folded, padded);
  return folded;
}

void AttentionPlan::DropoutFactors(const KernelArgs& args, int64_t b, int64_t g, int64_t row,
                                   int64_t m, const int32_t* q_positions,
                                   const int32_t* k_positions, int64_t n, float* factors) const {
  const int64_t* words = static_cast<const int64_t*>(args.operands[p.dropout_key]);
  const RandomKey key{static_cast<uint64_t>(words[0]), static_cast<uint64_t>(words[1])};
  const int64_t batch = *static_cast<const int64_t*>(args.operands[p.first_row]) + p.origin[0] + b;
  float ones[kTile];
  std::fill(ones, ones + kTile, 1.0f);
  for (int64_t i = 0; i < m; ++i) {
    const int64_t head = p.origin[2] + Head(g, row + i);
    const int64_t element =
        ((batch * p.global[2] + head) * p.global[1] + q_positions[i]) * p.key_global;
    // Keys at consecutive positions have consecutive elements.
    for (int64_t j = 0, end; j < n; j = end) {
      for (end = j + 1; end < n && k_positions[end] == k_positions[end - 1] + 1;) ++end;
      Updates().dropout(ones, key, site, static_cast<uint64_t>(element + k_positions[j]), rate,
                        keep_scale, factors + i * kTile + j, end - j);
    }
  }
}

void AttentionPlan::Slopes(const KernelArgs& args, int64_t g, int64_t first, int64_t n,
                           float* slopes) const {
  if (p.slopes < 0) return;
  const float* heads = static_cast<const float*>(args.operands[p.slopes]);
  for (int64_t i = 0; i < n; ++i) slopes[i] = heads[Head(g, first + i)];
}

void AttentionPlan::Bias(const KernelArgs& args, int64_t b, int64_t g, int64_t row, int64_t m,
                         int64_t j0, int64_t n, float* tile) const {
  if (p.bias < 0) return;
  const char* data = static_cast<const char*>(args.operands[p.bias]);
  for (int64_t i = 0; i < m; ++i) {
    LoadRun(bias_dtype, data + (BiasIndex(b, g, row + i) + j0) * SizeOf(bias_dtype),
            tile + i * kTile, n);
  }
}

void AttentionPlan::QueryPlaces(const KernelArgs& args, int64_t b, int64_t first, int64_t n,
                                const Places& places) const {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t s = (first + i) / r;
    places.positions[i] =
        p.q_positions < 0 ? static_cast<int32_t>(p.origin[1] + s)
                          : static_cast<const int32_t*>(args.operands[p.q_positions])[b * p.s + s];
    places.segments[i] =
        p.q_segments < 0 ? 0
                         : static_cast<const int32_t*>(args.operands[p.q_segments])[b * p.s + s];
  }
}

void AttentionPlan::KeyPlaces(const KernelArgs& args, int64_t b, int64_t first, int64_t n,
                              const Places& places) const {
  for (int64_t j = 0; j < n; ++j) {
    const int64_t t = first + j;
    places.positions[j] =
        p.k_positions < 0 ? static_cast<int32_t>(p.key_origin + t)
                          : static_cast<const int32_t*>(args.operands[p.k_positions])[b * p.t + t];
    places.segments[j] =
        p.k_segments < 0 ? 0
                         : static_cast<const int32_t*>(args.operands[p.k_segments])[b * p.t + t];
  }
}

Visibility AttentionPlan::See(IndexRange q, IndexRange k, IndexRange qs, IndexRange ks) const {
  const int64_t window = p.window > 0 ? p.window : std::numeric_limits<int64_t>::max();
  auto distance = [](int32_t a, int32_t b) { return static_cast<int64_t>(a) - b; };
  if (p.causal && k.least > q.most) return Visibility::kNone;
  if (distance(q.least, k.most) >= window) return Visibility::kNone;
  if (qs.most < ks.least || qs.least > ks.most) return Visibility::kNone;
  const bool one_segment = qs.least == qs.most && ks.least == ks.most;
  const bool all =
      one_segment && (!p.causal || k.most <= q.least) && distance(q.most, k.least) < window;
  return all ? Visibility::kAll : Visibility::kSome;
}

absl::StatusOr<std::shared_ptr<AttentionPlan>> DescribePlan(const KernelRequest& request,
                                                            int fixed) {
  for (int i = 0; i < fixed; ++i) {
    if (!IsSmallFloat(request.operands[i].dtype)) return Decline("computes in f32 only");
  }
  auto plan = std::make_shared<AttentionPlan>();
  plan->p = DescribeAttention({request.operands, *request.attributes}, fixed);
  const AttentionProblem& p = plan->p;
  if (p.bias >= 0) {
    plan->bias_dtype = request.operands[p.bias].dtype;
    if (!IsSmallFloat(plan->bias_dtype)) return Decline("an f64 bias");
  }
  if (request.results[0].elements() == 0 || request.operands[fixed - 3].elements() == 0 ||
      p.t == 0 || p.e == 0 || p.d == 0) {
    return Decline("nothing to compute");
  }
  plan->dtype = request.operands[0].dtype;
  plan->r = p.h / p.g;
  plan->rows = p.s * plan->r;
  plan->dp = PaddedFloats(p.d);
  plan->ep = PaddedFloats(p.e);
  plan->slots = request.threads;
  plan->pairs = plan->dtype == DType::kBF16 && plan->rows >= kFewRows &&
                Bf16Pairs() != PairSupport::kNone;
  if (p.dropout_rate > 0) {
    plan->site = SiteId(request.attributes->String("site"));
    plan->rate = static_cast<float>(std::ceil(p.dropout_rate * 0x1p+24) * 0x1p-24);
    plan->keep_scale = static_cast<float>(1 / (1 - p.dropout_rate));
  }
  return plan;
}

void KeyTile::Fill(const AttentionPlan& plan, const KernelArgs& args, int64_t b, int64_t j0,
                   int64_t limit) {
  first = j0;
  n = std::min(kTile, limit - j0);
  plan.KeyPlaces(args, b, j0, n, places);
  for (int64_t j = 0; j < n; j += kStrip) {
    const int64_t count = std::min(kStrip, n - j);
    strip_positions[j / kStrip] = RangeOf(places.positions + j, count);
    strip_segments[j / kStrip] = RangeOf(places.segments + j, count);
  }
  positions = RangeOf(places.positions, n);
  segments = RangeOf(places.segments, n);
}

Visibility KeyTile::Seen(const AttentionPlan& plan, const Places& queries, int64_t i0,
                         int64_t m) const {
  return plan.See(RangeOf(queries.positions + i0, m), positions, RangeOf(queries.segments + i0, m),
                  segments);
}

TileMask KeyTile::Mask(const AttentionPlan& plan, const Places& queries, int64_t row,
                       int64_t column) const {
  const bool segmented = plan.p.q_segments >= 0;
  return {.q_positions = queries.positions + row,
          .k_positions = places.positions + column,
          .q_segments = segmented ? queries.segments + row : nullptr,
          .k_segments = segmented ? places.segments + column : nullptr,
          .causal = plan.p.causal,
          .window = static_cast<int32_t>(std::min<int64_t>(plan.p.window, 1 << 30))};
}

TileStrips::TileStrips(const AttentionPlan& plan, const KeyTile& tile, const Places& queries,
                       int64_t i0, int64_t m, Visibility seen) {
  if (seen != Visibility::kSome) {
    rows = keys = seen == Visibility::kAll ? 1 : 0;
    of_rows[0] = {0, m, 0, tile.n, false};
    of_keys[0] = {0, tile.n, 0, m, false};
    return;
  }
  for (int64_t j = 0; j < tile.n; j += kStrip) {
    of_keys[j / kStrip] = {j, std::min(kStrip, tile.n - j), m, 0, true};
  }
  for (int64_t i = 0; i < m; i += kStrip) {
    Strip strip{i, std::min(kStrip, m - i), tile.n, 0, false};
    const IndexRange q = RangeOf(queries.positions + i0 + i, strip.rows);
    const IndexRange qs = RangeOf(queries.segments + i0 + i, strip.rows);
    for (int64_t j = 0; j < tile.n; j += kStrip) {
      Strip& column = of_keys[j / kStrip];
      const Visibility block =
          plan.See(q, tile.strip_positions[j / kStrip], qs, tile.strip_segments[j / kStrip]);
      strip.masked |= block != Visibility::kAll;
      if (block == Visibility::kNone) continue;
      strip.low = std::min(strip.low, j);
      strip.high = j + column.rows;
      column.low = std::min(column.low, i);
      column.high = i + strip.rows;
    }
    if (strip.high > 0) of_rows[rows++] = strip;
  }
  for (int64_t j = 0; j < tile.n; j += kStrip) {
    if (of_keys[j / kStrip].high > 0) of_keys[keys++] = of_keys[j / kStrip];
  }
}

void FinishScores(const AttentionPlan& plan, const KeyTile& tile, const Places& queries,
                  const float* slopes, int64_t i0, const Strip& strip, const float* bias,
                  float* scores, float* tanh) {
  const int64_t m = strip.rows, n = strip.high - strip.low;
  const int64_t at = strip.row * kTile + strip.low;
  const TileMask mask = tile.Mask(plan, queries, i0 + strip.row, strip.low);
  if (plan.p.softcap > 0) {
    Tiles().softcap(m, n, static_cast<float>(plan.p.softcap), scores + at,
                    tanh == nullptr ? nullptr : tanh + at, kTile);
  }
  if (plan.p.slopes >= 0) {
    Tiles().add_distances(m, n, slopes + i0 + strip.row, mask, scores + at, kTile);
  }
  if (plan.p.bias >= 0) Tiles().add(m, n, bias + at, scores + at, kTile);
  if (strip.masked) Tiles().mask(m, n, mask, scores + at, kTile);
}

}  // namespace colossus
