// attention, tile by tile: 64 query rows against 64 keys, never a whole row of scores. A row meets
// the key tiles in order, so its bits depend on neither the split of the work nor the number of
// threads.
#include <atomic>

#include "tensor/kernels/cpu/attention_plan.h"

namespace colossus {
namespace {

constexpr int64_t kSpan = 512;   // query rows that share a packed key tile, at most
constexpr int64_t kFewRows = 4;  // below: no turning of keys

// One unit is a span of query rows of one key/value head of one batch entry.
struct ForwardSlot {
  float *q, *out, *maxima, *sums, *slopes, *keys, *keys_turned, *values, *values_folded;
  float *scores, *narrow, *factors, *bias;
  Places places;
  KeyTile tile;

  ForwardSlot(const AttentionPlan& plan, Carver& carve) {
    const int64_t span = std::min(plan.span, plan.rows);
    q = carve.Floats(span * plan.RowElements(plan.dp));
    out = carve.Floats(span * plan.ep);
    maxima = carve.Floats(span);
    sums = carve.Floats(span);
    slopes = carve.Floats(plan.p.slopes >= 0 ? span : 0);
    factors = carve.Floats(plan.rate > 0 ? kTile * kTile : 0);
    bias = carve.Floats(plan.p.bias >= 0 ? kTile * kTile : 0);
    keys = carve.Floats(kTile * plan.RowElements(plan.dp));
    keys_turned = carve.Floats(plan.RowElements(plan.dp) * kTile);
    values = carve.Floats(kTile * plan.RowElements(plan.ep));
    values_folded = carve.Floats(plan.pairs ? kTile / 2 * plan.ep : 0);
    scores = carve.Floats(kTile * kTile);
    narrow = carve.Floats(plan.pairs ? kTile * kTile / 2 : 0);
    places = carve.TakePlaces(span);
    tile.places = carve.TakePlaces(kTile);
  }
};

// The keys and values of the slot's tile; `values`: with elements down the columns. Of few rows,
// rows that need no conversion are read in place.
struct TileOperands {
  const float *keys, *values;
  int64_t key_stride, value_stride;
};

TileOperands LoadTile(const AttentionPlan& plan, const KernelArgs& args, int64_t b, int64_t g,
                      bool few, ForwardSlot& slot) {
  const AttentionProblem& p = plan.p;
  const int64_t j0 = slot.tile.first, n = slot.tile.n;
  if (few && plan.dtype == DType::kF32 && p.e % 16 == 0) {
    const int64_t row = plan.KeyRow(b, g, j0);
    return {static_cast<const float*>(plan.Row(args.operands[1], row, p.d)),
            static_cast<const float*>(plan.Row(args.operands[2], row, p.e)), p.g * p.d, p.g * p.e};
  }
  plan.LoadKeys(args.operands[1], b, g, j0, n, p.d, plan.dp, slot.keys);
  plan.LoadKeys(args.operands[2], b, g, j0, n, p.e, plan.ep, slot.values);
  if (!few) plan.Turn(n, p.d, plan.dp, slot.keys, slot.keys_turned);
  return {slot.keys, plan.Fold(n, plan.ep, slot.values, slot.values_folded), plan.dp, plan.ep};
}

// Rows i0.. of the span against the slot's tile; slot.factors and slot.bias hold those of the tile.
void ForwardStrip(const AttentionPlan& plan, ForwardSlot& slot, const TileOperands& operands,
                  int64_t i0, const Strip& strip, bool few) {
  const AttentionProblem& p = plan.p;
  const int64_t m = strip.rows, n = strip.high - strip.low, row = i0 + strip.row;
  const int64_t at = strip.row * kTile + strip.low, ldq = plan.RowElements(plan.dp);
  float* scores = slot.scores + at;
  if (few) {
    const int64_t ldk = operands.key_stride;
    Tiles().dots(m, n, p.d, slot.q + row * ldq, ldq, operands.keys + strip.low * ldk, ldk, scores,
                 kTile, plan.scale());
  } else {
    plan.Product(m, PaddedFloats(n), p.d, slot.q + row * ldq, ldq, 1,
                 slot.keys_turned + strip.low, kTile, scores, kTile, false, plan.scale());
  }
  FinishScores(plan, slot.tile, slot.places, slot.slopes, i0, strip, slot.bias, slot.scores,
               nullptr);
  float* out = slot.out + row * plan.ep;
  Tiles().online_softmax(m, n, scores, kTile, slot.maxima + row, slot.sums + row, out, plan.ep);
  if (plan.rate > 0) Tiles().multiply(m, n, scores, slot.factors + at, scores, kTile);
  int64_t stride = kTile;
  if (plan.pairs) {
    Pairs().narrow(m, n, scores, kTile, slot.narrow, kTile / 2);
    scores = slot.narrow;
    stride = kTile / 2;
  }
  plan.Product(m, plan.ep, n, scores, stride, 1,
               operands.values + plan.Terms(strip.low) * operands.value_stride,
               operands.value_stride, out, plan.ep, true, 1);
}

void StoreSpan(const AttentionPlan& plan, const KernelArgs& args, int64_t b, int64_t g,
               int64_t first, int64_t rows, ForwardSlot& slot) {
  float* lse = static_cast<float*>(args.results[1]);
  for (int64_t i = 0; i < rows; ++i) {
    // A row that saw a key has a sum of at least 1, or NaN.
    const bool any = slot.sums[i] != 0.0f;
    float* out = slot.out + i * plan.ep;
    Tiles().scale(out, any ? 1.0f / slot.sums[i] : 0.0f, plan.p.e);
    plan.StoreRow(out, args.results[0], plan.QueryRow(b, g, first + i), plan.p.e);
    lse[plan.LseIndex(b, g, first + i)] =
        any ? slot.maxima[i] + std::log(slot.sums[i]) : -kInfinity;
  }
}

void ForwardUnit(const AttentionPlan& plan, const KernelArgs& args, int64_t b, int64_t g,
                 int64_t first, ForwardSlot& slot) {
  const AttentionProblem& p = plan.p;
  const int64_t rows = std::min(plan.span, plan.rows - first), limit = plan.Limit(args, b);
  const bool few = plan.rows < kFewRows;
  plan.LoadQueries(args.operands[0], b, g, first, rows, p.d, plan.dp, slot.q);
  std::fill(slot.out, slot.out + rows * plan.ep, 0.0f);
  std::fill(slot.maxima, slot.maxima + rows, -kInfinity);
  std::fill(slot.sums, slot.sums + rows, 0.0f);
  plan.QueryPlaces(args, b, first, rows, slot.places);
  plan.Slopes(args, g, first, rows, slot.slopes);
  for (int64_t j0 = 0; j0 < limit; j0 += kTile) {
    slot.tile.Fill(plan, args, b, j0, limit);
    const int64_t n = slot.tile.n;
    if (slot.tile.Seen(plan, slot.places, 0, rows) == Visibility::kNone) continue;
    const TileOperands operands = LoadTile(plan, args, b, g, few, slot);
    for (int64_t i0 = 0; i0 < rows; i0 += kTile) {
      const int64_t m = std::min(kTile, rows - i0);
      const Visibility seen = slot.tile.Seen(plan, slot.places, i0, m);
      if (seen == Visibility::kNone) continue;
      if (plan.rate > 0) {
        plan.DropoutFactors(args, b, g, first + i0, m, slot.places.positions + i0,
                            slot.tile.places.positions, n, slot.factors);
      }
      plan.Bias(args, b, g, first + i0, m, j0, n, slot.bias);
      const TileStrips strips(plan, slot.tile, slot.places, i0, m, seen);
      for (int s = 0; s < strips.rows; ++s) {
        ForwardStrip(plan, slot, operands, i0, strips.of_rows[s], few);
      }
    }
  }
  StoreSpan(plan, args, b, g, first, rows, slot);
}

void RunForward(const AttentionPlan& plan, const KernelArgs& args) {
  const AttentionProblem& p = plan.p;
  const int64_t heads = p.b * p.g, units = heads * ((plan.rows + plan.span - 1) / plan.span);
  // Threads take units as they come, those of later rows first: they see more keys if causal.
  std::atomic<int64_t> taken{0};
  ParallelFor(std::min(plan.slots, units), 1, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      Carver carve(static_cast<float*>(args.workspace) + s * plan.slot_floats);
      ForwardSlot slot(plan, carve);
      for (int64_t unit; (unit = units - 1 - taken.fetch_add(1)) >= 0;) {
        const int64_t bg = unit % heads;
        ForwardUnit(plan, args, bg / p.g, bg % p.g, unit / heads * plan.span, slot);
      }
    }
  });
}

}  // namespace

absl::StatusOr<PlannedKernel> PlanAttention(const KernelRequest& request) {
  absl::StatusOr<std::shared_ptr<AttentionPlan>> made = DescribePlan(request, 3);
  if (!made.ok()) return made.status();
  std::shared_ptr<AttentionPlan> plan = *made;
  // Shorter spans where there are few heads for the threads, or rows are long.
  const int64_t heads = plan->p.b * plan->p.g;
  auto units = [&] { return heads * ((plan->rows + plan->span - 1) / plan->span); };
  plan->span = kSpan;
  while (plan->span > kTile && (units() < 4 * plan->slots && plan->slots > 1)) plan->span /= 2;
  for (;; plan->span /= 2) {
    Carver measure(nullptr);
    ForwardSlot slot(*plan, measure);
    plan->slot_floats = measure.used();
    if (plan->span <= kTile || plan->slot_floats * 4 <= kSlotBytes) break;
  }
  if (plan->slot_floats * 4 > kSlotBytes) return Decline("rows too long for tiles of 64");
  PlannedKernel planned;
  planned.workspace_bytes = plan->slots * plan->slot_floats * static_cast<int64_t>(sizeof(float));
  planned.run = [plan](const KernelArgs& args) { RunForward(*plan, args); };
  return planned;
}

}  // namespace colossus
