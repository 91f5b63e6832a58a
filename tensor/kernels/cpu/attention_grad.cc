// The gradient of attention, tile by tile. dk and dv of a key add up over the tiles of query rows
// in order, dq of a row over the tiles of keys in order, so bits depend on neither the split of the
// work nor the number of threads. A key/value head of a batch entry is one unit where its dq fits a
// thread's workspace; else, and where units would leave threads idle, spans of keys (dk, dv) and
// tiles of query rows (dq) are units of their own: seven products instead of five.
#include <atomic>
#include <vector>

#include "tensor/kernels/cpu/attention_plan.h"

namespace colossus {
namespace {

constexpr int64_t kSpanTiles = 4;  // key tiles that share a loaded tile of query rows, at most

// A tile of keys and its gradients.
struct KeyBlock {
  float *keys, *keys_folded, *keys_turned, *values_turned, *dk, *dv;
  KeyTile tile;
};

struct BackwardSlot {
  float *q, *q_folded, *dout, *dout_folded, *lse, *mean, *slopes, *dq;
  float *row, *values, *scores, *dscores, *factors, *kept, *tanh, *bias, *dbias;
  float *down, *ddown, *narrow;
  Places places;
  KeyBlock blocks[kSpanTiles];

  // `dq_rows`: query rows whose dq is kept.
  BackwardSlot(const AttentionPlan& plan, int64_t dq_rows, Carver& carve) {
    const int64_t d = plan.RowElements(plan.dp), e = plan.RowElements(plan.ep);
    const int64_t tile = kTile * kTile, folded = plan.pairs ? kTile / 2 : 0;
    q = carve.Floats(kTile * d);
    dout = carve.Floats(kTile * e);
    q_folded = carve.Floats(folded * plan.dp);
    dout_folded = carve.Floats(folded * plan.ep);
    lse = carve.Floats(kTile);
    mean = carve.Floats(kTile);
    slopes = carve.Floats(kTile);
    dq = carve.Floats(dq_rows * plan.dp);
    row = carve.Floats(2 * plan.ep);
    values = carve.Floats(kTile * e);
    scores = carve.Floats(tile);
    dscores = carve.Floats(tile);
    factors = carve.Floats(plan.rate > 0 ? tile : 0);
    kept = carve.Floats(plan.rate > 0 ? tile : 0);
    tanh = carve.Floats(plan.p.softcap > 0 ? tile : 0);
    bias = carve.Floats(plan.p.bias >= 0 ? tile : 0);
    dbias = carve.Floats(plan.p.bias >= 0 ? tile : 0);
    down = carve.Floats(plan.pairs ? tile / 2 : 0);
    ddown = carve.Floats(plan.pairs ? tile / 2 : 0);
    narrow = carve.Floats(plan.pairs ? tile / 2 : 0);
    places = carve.TakePlaces(kTile);
    for (int64_t i = 0; i < plan.span / kTile; ++i) {
      KeyBlock& block = blocks[i];
      block.keys = carve.Floats(kTile * d);
      block.keys_folded = carve.Floats(folded * plan.dp);
      block.keys_turned = carve.Floats(d * kTile);
      block.values_turned = carve.Floats(e * kTile);
      block.dk = carve.Floats(kTile * plan.dp);
      block.dv = carve.Floats(kTile * plan.ep);
      block.tile.places = carve.TakePlaces(kTile);
    }
  }
};

// Loads a block's keys [j0, ...) below `limit`.
void LoadBlock(const AttentionPlan& plan, const KernelArgs& args, int64_t b, int64_t g, int64_t j0,
               int64_t limit, BackwardSlot& slot, KeyBlock& block) {
  const AttentionProblem& p = plan.p;
  block.tile.Fill(plan, args, b, j0, limit);
  const int64_t n = block.tile.n;
  plan.LoadKeys(args.operands[2], b, g, j0, n, p.d, plan.dp, block.keys);
  plan.Turn(n, p.d, plan.dp, block.keys, block.keys_turned);
  plan.Fold(n, plan.dp, block.keys, block.keys_folded);
  plan.LoadKeys(args.operands[3], b, g, j0, n, p.e, plan.ep, slot.values);
  plan.Turn(n, p.e, plan.ep, slot.values, block.values_turned);
}

// Loads query rows [i0, i0 + m) with what their gradients need; their places are there.
void LoadRows(const AttentionPlan& plan, const KernelArgs& args, int64_t b, int64_t g, int64_t i0,
              int64_t m, BackwardSlot& slot) {
  const AttentionProblem& p = plan.p;
  const float* lse = static_cast<const float*>(args.operands[5]);
  plan.LoadQueries(args.operands[1], b, g, i0, m, p.d, plan.dp, slot.q);
  plan.LoadQueries(args.operands[0], b, g, i0, m, p.e, plan.ep, slot.dout);
  plan.Fold(m, plan.dp, slot.q, slot.q_folded);
  plan.Fold(m, plan.ep, slot.dout, slot.dout_folded);
  for (int64_t i = 0; i < m; ++i) {
    const int64_t row = plan.QueryRow(b, g, i0 + i);
    LoadRun(plan.dtype, plan.Row(args.operands[0], row, p.e), slot.row, p.e);
    LoadRun(plan.dtype, plan.Row(args.operands[4], row, p.e), slot.row + plan.ep, p.e);
    slot.mean[i] = Tiles().dot(slot.row, slot.row + plan.ep, p.e);
    // A query without keys: exp(score - infinity) = 0.
    const float value = lse[plan.LseIndex(b, g, i0 + i)];
    slot.lse[i] = value == -kInfinity ? kInfinity : value;
  }
  plan.Slopes(args, g, i0, m, slot.slopes);
}

// Probabilities and gradients of scores of a strip, in slot.scores (slot.kept if there is dropout)
// and slot.dscores; slot.factors and slot.bias hold those of the tile.
void StripGradients(const AttentionPlan& plan, BackwardSlot& slot, const KeyBlock& block,
                    const Strip& strip, float* dbias) {
  const AttentionProblem& p = plan.p;
  const int64_t m = strip.rows, n = strip.high - strip.low, padded = PaddedFloats(n);
  const int64_t at = strip.row * kTile + strip.low;
  const int64_t ldq = plan.RowElements(plan.dp), ldo = plan.RowElements(plan.ep);
  float* scores = slot.scores + at;
  float* dscores = slot.dscores + at;
  plan.Product(m, padded, p.d, slot.q + strip.row * ldq, ldq, 1, block.keys_turned + strip.low,
               kTile, scores, kTile, false, plan.scale());
  FinishScores(plan, block.tile, slot.places, slot.slopes, 0, strip, slot.bias, slot.scores,
               slot.tanh);
  Tiles().probabilities(m, n, slot.lse + strip.row, scores, kTile);
  plan.Product(m, padded, p.e, slot.dout + strip.row * ldo, ldo, 1,
               block.values_turned + strip.low, kTile, dscores, kTile, false, 1);
  if (plan.rate > 0) {
    Tiles().multiply(m, n, scores, slot.factors + at, slot.kept + at, kTile);
    Tiles().multiply(m, n, dscores, slot.factors + at, dscores, kTile);
  }
  Tiles().score_gradients(m, n, scores, slot.mean + strip.row, dscores, kTile);
  if (dbias != nullptr) Tiles().add(m, n, dscores, dbias + at, kTile);
  if (p.softcap > 0) Tiles().softcap_gradient(m, n, slot.tanh + at, dscores, kTile);
}

// dk and dv of the block take what the tile's m query rows add.
void AddKeyGradients(const AttentionPlan& plan, BackwardSlot& slot, KeyBlock& block, int64_t m,
                     const TileStrips& strips) {
  const int64_t dp = plan.dp, ep = plan.ep;
  const float* kept = plan.rate > 0 ? slot.kept : slot.scores;
  const float* dscores = slot.dscores;
  if (plan.pairs) {
    Pairs().narrow_down(m, block.tile.n, kept, kTile, slot.down, kTile);
    Pairs().narrow_down(m, block.tile.n, dscores, kTile, slot.ddown, kTile);
    kept = slot.down;
    dscores = slot.ddown;
  }
  const float* q = plan.pairs ? slot.q_folded : slot.q;
  const float* dout = plan.pairs ? slot.dout_folded : slot.dout;
  for (int s = 0; s < strips.keys; ++s) {
    const Strip& strip = strips.of_keys[s];
    const int64_t low = plan.Terms(strip.low), at = low * kTile + strip.row;
    const int64_t terms = strip.high - strip.low;
    plan.Product(strip.rows, ep, terms, kept + at, 1, kTile, dout + low * ep, ep,
                 block.dv + strip.row * ep, ep, true, 1);
    plan.Product(strip.rows, dp, terms, dscores + at, 1, kTile, q + low * dp, dp,
                 block.dk + strip.row * dp, dp, true, 1);
  }
}

// dq of the tile's rows takes what the block's keys add.
void AddQueryGradients(const AttentionPlan& plan, BackwardSlot& slot, const KeyBlock& block,
                       const TileStrips& strips, float* dq) {
  const int64_t dp = plan.dp;
  const float* keys = plan.pairs ? block.keys_folded : block.keys;
  for (int s = 0; s < strips.rows; ++s) {
    const Strip& strip = strips.of_rows[s];
    const int64_t n = strip.high - strip.low;
    const float* dscores = slot.dscores + strip.row * kTile + strip.low;
    int64_t stride = kTile;
    if (plan.pairs) {
      Pairs().narrow(strip.rows, n, dscores, kTile, slot.narrow, kTile / 2);
      dscores = slot.narrow;
      stride = kTile / 2;
    }
    plan.Product(strip.rows, dp, n, dscores, stride, 1, keys + plan.Terms(strip.low) * dp, dp,
                 dq + strip.row * dp, dp, true, 1);
  }
}

// What a tile's gradients are added to; nullptr and false: not wanted.
struct Sums {
  bool keys = false;
  float* dq = nullptr;
  float* dbias = nullptr;
};

// The loaded query rows [i0, i0 + m) against a block.
void BackwardTile(const AttentionPlan& plan, const KernelArgs& args, int64_t b, int64_t g,
                  int64_t i0, int64_t m, BackwardSlot& slot, KeyBlock& block, const Sums& sums) {
  const Visibility seen = block.tile.Seen(plan, slot.places, 0, m);
  if (seen == Visibility::kNone) return;
  const int64_t j0 = block.tile.first, n = block.tile.n;
  if (plan.rate > 0) {
    plan.DropoutFactors(args, b, g, i0, m, slot.places.positions, block.tile.places.positions, n,
                        slot.factors);
  }
  plan.Bias(args, b, g, i0, m, j0, n, slot.bias);
  const TileStrips strips(plan, block.tile, slot.places, 0, m, seen);
  if (seen == Visibility::kSome) {  // what strips of rows leave out, strips of keys may read
    std::fill(slot.scores, slot.scores + kTile * kTile, 0.0f);
    std::fill(slot.dscores, slot.dscores + kTile * kTile, 0.0f);
    if (plan.rate > 0) std::fill(slot.kept, slot.kept + kTile * kTile, 0.0f);
  }
  for (int s = 0; s < strips.rows; ++s) {
    StripGradients(plan, slot, block, strips.of_rows[s], sums.dbias);
  }
  if (sums.keys) AddKeyGradients(plan, slot, block, m, strips);
  if (sums.dq != nullptr) AddQueryGradients(plan, slot, block, strips, sums.dq);
}

// dk and dv of keys [first, first + plan.span), and what they add to dq (nullptr: not wanted) of
// all rows.
void KeySpan(const AttentionPlan& plan, const KernelArgs& args, int64_t b, int64_t g,
             int64_t first, float* dq, BackwardSlot& slot) {
  const AttentionProblem& p = plan.p;
  const int64_t limit = std::min(plan.Limit(args, b), first + plan.span);
  int blocks = 0;
  for (int64_t j0 = first; j0 < limit; j0 += kTile) {
    LoadBlock(plan, args, b, g, j0, limit, slot, slot.blocks[blocks++]);
  }
  const int64_t end = std::min(p.t, first + plan.span);
  for (int64_t j0 = first; j0 < end; j0 += kTile) {
    KeyBlock& block = slot.blocks[(j0 - first) / kTile];
    std::fill(block.dk, block.dk + kTile * plan.dp, 0.0f);
    std::fill(block.dv, block.dv + kTile * plan.ep, 0.0f);
  }
  for (int64_t i0 = 0; i0 < plan.rows && blocks > 0; i0 += kTile) {
    const int64_t m = std::min(kTile, plan.rows - i0);
    plan.QueryPlaces(args, b, i0, m, slot.places);
    bool loaded = false;
    for (int i = 0; i < blocks; ++i) {
      KeyBlock& block = slot.blocks[i];
      if (block.tile.Seen(plan, slot.places, 0, m) == Visibility::kNone) continue;
      if (!loaded) LoadRows(plan, args, b, g, i0, m, slot);
      loaded = true;
      BackwardTile(plan, args, b, g, i0, m, slot, block,
                   {.keys = true, .dq = dq == nullptr ? nullptr : dq + i0 * plan.dp});
    }
  }
  for (int64_t j = first; j < end; ++j) {
    const KeyBlock& block = slot.blocks[(j - first) / kTile];
    float* dk = block.dk + (j - first) % kTile * plan.dp;
    Tiles().scale(dk, plan.scale(), p.d);
    plan.StoreRow(dk, args.results[1], plan.KeyRow(b, g, j), p.d);
    plan.StoreRow(block.dv + (j - first) % kTile * plan.ep, args.results[2],
                  plan.KeyRow(b, g, j), p.e);
  }
}

void StoreQueryGradients(const AttentionPlan& plan, const KernelArgs& args, int64_t b, int64_t g,
                         int64_t i0, int64_t m, float* dq) {
  for (int64_t i = 0; i < m; ++i) {
    Tiles().scale(dq + i * plan.dp, plan.scale(), plan.p.d);
    plan.StoreRow(dq + i * plan.dp, args.results[0], plan.QueryRow(b, g, i0 + i), plan.p.d);
  }
}

// All gradients of one key/value head.
void WholeHead(const AttentionPlan& plan, const KernelArgs& args, int64_t b, int64_t g,
               BackwardSlot& slot) {
  std::fill(slot.dq, slot.dq + plan.rows * plan.dp, 0.0f);
  for (int64_t j0 = 0; j0 < plan.p.t; j0 += plan.span) {
    KeySpan(plan, args, b, g, j0, slot.dq, slot);
  }
  StoreQueryGradients(plan, args, b, g, 0, plan.rows, slot.dq);
}

// dq of the tile of rows from i0.
void QueryTile(const AttentionPlan& plan, const KernelArgs& args, int64_t b, int64_t g, int64_t i0,
               BackwardSlot& slot) {
  const int64_t m = std::min(kTile, plan.rows - i0), limit = plan.Limit(args, b);
  plan.QueryPlaces(args, b, i0, m, slot.places);
  LoadRows(plan, args, b, g, i0, m, slot);
  std::fill(slot.dq, slot.dq + m * plan.dp, 0.0f);
  KeyBlock& block = slot.blocks[0];
  for (int64_t j0 = 0; j0 < limit; j0 += kTile) {
    block.tile.Fill(plan, args, b, j0, limit);
    if (block.tile.Seen(plan, slot.places, 0, m) == Visibility::kNone) continue;
    LoadBlock(plan, args, b, g, j0, limit, slot, block);
    BackwardTile(plan, args, b, g, i0, m, slot, block, {.dq = slot.dq});
  }
  StoreQueryGradients(plan, args, b, g, i0, m, slot.dq);
}

// dbias of the tile of rows from i0: of batch entry `first`, or the sum over all in order.
void BiasTile(const AttentionPlan& plan, const KernelArgs& args, int64_t first, int64_t g,
              int64_t i0, BackwardSlot& slot) {
  const AttentionProblem& p = plan.p;
  const int64_t m = std::min(kTile, plan.rows - i0), last = p.bias_per_batch ? first + 1 : p.b;
  const int64_t size = SizeOf(plan.bias_dtype);
  KeyBlock& block = slot.blocks[0];
  for (int64_t j0 = 0; j0 < p.t; j0 += kTile) {
    std::fill(slot.dbias, slot.dbias + kTile * kTile, 0.0f);
    for (int64_t b = first; b < last; ++b) {
      const int64_t limit = plan.Limit(args, b);
      if (j0 >= limit) continue;
      plan.QueryPlaces(args, b, i0, m, slot.places);
      LoadRows(plan, args, b, g, i0, m, slot);
      LoadBlock(plan, args, b, g, j0, limit, slot, block);
      BackwardTile(plan, args, b, g, i0, m, slot, block, {.dbias = slot.dbias});
    }
    for (int64_t i = 0; i < m; ++i) {
      StoreRun(plan.bias_dtype, slot.dbias + i * kTile,
               static_cast<char*>(args.results[3]) +
                   (plan.BiasIndex(first, g, i0 + i) + j0) * size,
               std::min(kTile, p.t - j0));
    }
  }
}

// A piece of the work; pieces write different rows.
struct Piece {
  enum Kind { kHead, kKeys, kQueries, kBias } kind;
  int64_t b, g, first;
};

struct BackwardPlan {
  std::shared_ptr<AttentionPlan> attention;
  int64_t dq_rows = 0;
  std::vector<Piece> pieces;  // the largest first

  void Run(const Piece& piece, const KernelArgs& args, BackwardSlot& slot) const {
    const AttentionPlan& plan = *attention;
    switch (piece.kind) {
      case Piece::kHead: return WholeHead(plan, args, piece.b, piece.g, slot);
      case Piece::kKeys: return KeySpan(plan, args, piece.b, piece.g, piece.first, nullptr, slot);
      case Piece::kQueries: return QueryTile(plan, args, piece.b, piece.g, piece.first, slot);
      case Piece::kBias: return BiasTile(plan, args, piece.b, piece.g, piece.first, slot);
    }
  }

  // Threads take pieces as they come.
  void Run(const KernelArgs& args) const {
    const AttentionPlan& plan = *attention;
    const int64_t count = static_cast<int64_t>(pieces.size());
    std::atomic<int64_t> taken{0};
    ParallelFor(std::min(plan.slots, count), 1, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) {
        Carver carve(static_cast<float*>(args.workspace) + s * plan.slot_floats);
        BackwardSlot slot(plan, dq_rows, carve);
        for (int64_t i; (i = taken.fetch_add(1)) < count;) Run(pieces[i], args, slot);
      }
    });
  }
};

// Heads that are one piece each: as many as all threads can take in equal shares, and the rest too
// if that is quicker than cutting it up (7 products for 5).
int64_t WholeHeads(int64_t heads, int64_t threads, bool fits) {
  if (!fits) return 0;
  const int64_t rest = heads % threads;
  return 7 * rest >= 5 * threads ? heads : heads - rest;
}

void AddPieces(BackwardPlan& made, bool fits) {
  const AttentionPlan& plan = *made.attention;
  const AttentionProblem& p = plan.p;
  const int64_t heads = p.b * p.g, whole = WholeHeads(heads, plan.slots, fits);
  for (int64_t i = 0; i < whole; ++i) made.pieces.push_back({Piece::kHead, i / p.g, i % p.g, 0});
  for (int64_t j0 = 0; j0 < p.t; j0 += plan.span) {
    for (int64_t i = whole; i < heads; ++i) {
      made.pieces.push_back({Piece::kKeys, i / p.g, i % p.g, j0});
    }
  }
  for (int64_t i0 = (plan.rows - 1) / kTile * kTile; i0 >= 0; i0 -= kTile) {
    for (int64_t i = whole; i < heads; ++i) {
      made.pieces.push_back({Piece::kQueries, i / p.g, i % p.g, i0});
    }
    if (p.bias < 0) continue;
    for (int64_t i = 0; i < (p.bias_per_batch ? heads : p.g); ++i) {
      made.pieces.push_back({Piece::kBias, i / p.g, i % p.g, i0});
    }
  }
}

}  // namespace

absl::StatusOr<PlannedKernel> PlanAttentionGrad(const KernelRequest& request) {
  absl::StatusOr<std::shared_ptr<AttentionPlan>> described = DescribePlan(request, 6);
  if (!described.ok()) return described.status();
  auto made = std::make_shared<BackwardPlan>();
  made->attention = *described;
  AttentionPlan& plan = *made->attention;
  auto measure = [&plan](int64_t dq_rows) {
    Carver carve(nullptr);
    BackwardSlot slot(plan, dq_rows, carve);
    return carve.used();
  };
  // Shorter spans of keys where rows are long; of the rest of the workspace dq may take all.
  plan.span = std::min(kSpanTiles * kTile, (plan.p.t + kTile - 1) / kTile * kTile);
  while (plan.span > kTile && measure(0) * 4 > kSlotBytes / 2) {
    plan.span = plan.span / 2 / kTile * kTile;
  }
  made->dq_rows = std::max(plan.rows, kTile);
  const bool fits = measure(made->dq_rows) * 4 <= kSlotBytes;
  if (!fits) made->dq_rows = kTile;
  plan.slot_floats = measure(made->dq_rows);
  if (plan.slot_floats * 4 > kSlotBytes) return Decline("rows too long for tiles of 64");
  AddPieces(*made, fits);
  PlannedKernel planned;
  planned.workspace_bytes = plan.slots * plan.slot_floats * static_cast<int64_t>(sizeof(float));
  planned.run = [made](const KernelArgs& args) { made->Run(args); };
  return planned;
}

}  // namespace colossus
