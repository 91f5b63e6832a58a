// Functors over rows: norms, softmax, cross-entropy, rotary, embedding, dropout.
//
// All compute in f32 and round once when they store. Sums over a row are a team's (team.h); sums
// over rows are made in chunks of fixed size, so that no result depends on which thread was first.
// Thread-safety: plain values. Ownership: views of device memory.
#ifndef COLOSSUS_TENSOR_KERNELS_FUNCTORS_ROWS_H_
#define COLOSSUS_TENSOR_KERNELS_FUNCTORS_ROWS_H_

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/random.h"
#include "tensor/kernels/functors/element.h"
#include "tensor/kernels/functors/reduce.h"
#include "tensor/kernels/functors/team.h"

namespace colossus {

// layer_norm, and rms_norm where not `centred`. One row by a warp.
struct NormRow {
  static constexpr int kLanes = 32;
  Source x, weight, bias;  // weight and bias may be absent
  Target y, mean, rstd;
  int64_t c = 0;
  float epsilon = 0, offset = 0;  // offset: added to the weight
  bool centred = true;

  HD void operator()(const Team<32>& team, int64_t row) const {
    const int64_t first = row * c;
    const float count = static_cast<float>(c);
    float m = 0;
    if (centred) m = team.Sum<float>(c, [&](int64_t j) { return x.F(first + j); }) / count;
    const float squares = team.Sum<float>(c, [&](int64_t j) {
      const float d = x.F(first + j) - m;
      return d * d;
    });
    const float r = 1.0f / std::sqrt(squares / count + epsilon);
    team.ForEach(c, [&](int64_t j) {
      float value = (x.F(first + j) - m) * r;
      if (weight.present()) value *= weight.F(j) + offset;
      if (bias.present()) value += bias.F(j);
      y.Set(first + j, value);
    });
    team.Once([&] {
      if (centred) mean.Set(row, m);
      rstd.Set(row, r);
    });
  }
};

// What the gradients of a norm read.
struct NormGradientInputs {
  Source dy, x, mean, rstd, weight;  // mean absent: rms_norm
  int64_t rows = 0, c = 0;
  float offset = 0;

  HD float Normalized(int64_t row, int64_t j, float m, float r) const {
    return (x.F(row * c + j) - m) * r;
  }
  HD float Mean(int64_t row) const { return mean.present() ? mean.F(row) : 0.0f; }
};

// dx of one row.
struct NormGradientRow {
  static constexpr int kLanes = 32;
  NormGradientInputs in;
  Target dx;

  HD float Scaled(int64_t at, int64_t j) const {
    const float dy = in.dy.F(at + j);
    return in.weight.present() ? dy * (in.weight.F(j) + in.offset) : dy;
  }
  HD void operator()(const Team<32>& team, int64_t row) const {
    const int64_t at = row * in.c;
    const float m = in.Mean(row), r = in.rstd.F(row), count = static_cast<float>(in.c);
    float mean = 0;
    if (in.mean.present()) {
      mean = team.Sum<float>(in.c, [&](int64_t j) { return Scaled(at, j); }) / count;
    }
    const float product = team.Sum<float>(in.c, [&](int64_t j) {
      return Scaled(at, j) * in.Normalized(row, j, m, r);
    }) / count;
    team.ForEach(in.c, [&](int64_t j) {
      const float normalized = in.Normalized(row, j, m, r);
      dx.Set(at + j, r * ((Scaled(at, j) - mean) - normalized * product));
    });
  }
};

// Unit chunk * c + j: sums of dy * xhat and of dy over the chunk's rows, into
// partial[(2 * chunk + {0, 1}) * c + j].
struct NormGradientChunk {
  NormGradientInputs in;
  float* partial = nullptr;
  HD void operator()(int64_t unit) const {
    const int64_t j = unit % in.c, chunk = unit / in.c, first = chunk * kReduceChunk;
    const int64_t last = first + kReduceChunk < in.rows ? first + kReduceChunk : in.rows;
    float dweight = 0, dbias = 0;
    for (int64_t row = first; row < last; ++row) {
      const float dy = in.dy.F(row * in.c + j);
      dweight += dy * in.Normalized(row, j, in.Mean(row), in.rstd.F(row));
      dbias += dy;
    }
    partial[2 * chunk * in.c + j] = dweight;
    partial[(2 * chunk + 1) * in.c + j] = dbias;
  }
};

// Unit j: the chunks of column j in order. Absent targets are not wanted.
struct NormGradientTotals {
  const float* partial = nullptr;
  int64_t chunks = 0, c = 0;
  Target dweight, dbias;
  HD void operator()(int64_t j) const {
    float weight = 0, bias = 0;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      weight += partial[2 * chunk * c + j];
      bias += partial[(2 * chunk + 1) * c + j];
    }
    if (dweight.present()) dweight.Set(j, weight);
    if (dbias.present()) dbias.Set(j, bias);
  }
};

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// softmax of one row.
template <int kLanesOfRow>
struct SoftmaxRow {
  static constexpr int kLanes = kLanesOfRow;
  Source x;
  Target y;
  int64_t n = 0;
  HD void operator()(const Team<kLanes>& team, int64_t row) const {
    const int64_t at = row * n;
    const float top = team.template Max<float>(n, kMinusInfinity,
                                               [&](int64_t i) { return x.F(at + i); });
    const float sum = team.template Sum<float>(
        n, [&](int64_t i) { return std::exp(x.F(at + i) - top); });
    team.ForEach(n, [&](int64_t i) { y.Set(at + i, std::exp(x.F(at + i) - top) / sum); });
  }
};

template <int kLanesOfRow>
struct SoftmaxGradientRow {
  static constexpr int kLanes = kLanesOfRow;
  Source dy, y;
  Target dx;
  int64_t n = 0;
  HD void operator()(const Team<kLanes>& team, int64_t row) const {
    const int64_t at = row * n;
    const float sum = team.template Sum<float>(
        n, [&](int64_t i) { return dy.F(at + i) * y.F(at + i); });
    team.ForEach(n, [&](int64_t i) { dx.Set(at + i, y.F(at + i) * (dy.F(at + i) - sum)); });
  }
};

// log(sum(exp(logits))) of `classes` entries from element `at` on.
template <int kLanes>
HD float LogSumExpOf(const Team<kLanes>& team, const Source& logits, int64_t at, int64_t classes) {
  const float top = team.template Max<float>(classes, kMinusInfinity,
                                             [&](int64_t v) { return logits.F(at + v); });
  const float sum = team.template Sum<float>(
      classes, [&](int64_t v) { return std::exp(logits.F(at + v) - top); });
  return top + std::log(sum);
}

// The loss of a position; a label outside the classes is an error of the data: NaN.
HD float LossOfLabel(const Source& logits, int64_t at, int64_t classes, float lse, int64_t label) {
  if (label < 0 || label >= classes) return std::numeric_limits<float>::quiet_NaN();
  return lse - logits.F(at + label);
}

// cross_entropy: one position.
struct CrossEntropyRow {
  static constexpr int kLanes = 256;
  Source logits, labels;
  Target lse;
  float* loss = nullptr;  // per position
  int64_t columns = 0, classes = 0, ignore = -100;
  HD void operator()(const Team<256>& team, int64_t n) const {
    const int64_t at = n * columns, label = labels.I(n);
    const float value = LogSumExpOf(team, logits, at, classes);
    team.Once([&] {
      lse.Set(n, value);
      loss[n] = label == ignore ? 0.0f : LossOfLabel(logits, at, classes, value, label);
    });
  }
};

// cross_entropy_grad: one element of dlogits.
struct CrossEntropyGradient {
  Source seed, logits, labels, lse;
  Target dlogits;
  int64_t columns = 0, classes = 0, origin = 0, ignore = -100;  // origin: of the columns here
  HD void operator()(int64_t i) const {
    const int64_t n = i / columns, v = i % columns, label = labels.I(n);
    if (label == ignore || v >= classes) return dlogits.Set(i, 0);
    const float difference = std::exp(logits.F(i) - lse.F(n)) - (origin + v == label ? 1.0f : 0.0f);
    dlogits.Set(i, difference * seed.F(0));
  }
};

// linear_cross_entropy: one position of a chunk. Adds the bias to its logits, takes the loss and,
// with a seed, overwrites the logits with their cotangents (and `narrow` with the rounded ones).
struct LossRow {
  static constexpr int kLanes = 256;
  float* logits = nullptr;  // [rows of the chunk, columns]
  Source labels, bias, seed;
  Target narrow;
  float* loss = nullptr;    // per position
  int64_t first = 0, columns = 0, classes = 0, ignore = -100;

  HD void operator()(const Team<256>& team, int64_t row) const {
    const int64_t at = row * columns, label = labels.I(first + row);
    if (bias.present()) {
      team.ForEach(classes, [&](int64_t v) { logits[at + v] += bias.F(v); });
      team.Sync();
    }
    const Source x{logits, DType::kF32};
    const float lse = LogSumExpOf(team, x, at, classes);
    team.Once([&] {
      loss[first + row] =
          label == ignore ? 0.0f : LossOfLabel(x, at, classes, lse, label);
    });
    if (!seed.present()) return;
    team.Sync();  // the label's logit was read
    const float cotangent = seed.F(0);
    team.ForEach(columns, [&](int64_t v) {
      float value = 0;
      if (label != ignore && v < classes) {
        value = (std::exp(logits[at + v] - lse) - (v == label ? 1.0f : 0.0f)) * cotangent;
      }
      logits[at + v] = value;
      if (narrow.present()) narrow.Set(at + v, value);
    });
  }
};

// Adds the rows of one column in order to dbias.
struct BiasColumn {
  const float* dlogits = nullptr;  // [rows, columns]
  float* dbias = nullptr;
  int64_t rows = 0, columns = 0;
  bool first = true;  // starts from 0
  HD void operator()(int64_t v) const {
    float sum = first ? 0.0f : dbias[v];
    for (int64_t row = 0; row < rows; ++row) sum += dlogits[row * columns + v];
    dbias[v] = sum;
  }
};

// rotary: unit (row * heads + head) * (d - half) + k: pair k, or a passed entry from `half` on.
struct RotaryPair {
  Source x, positions, frequencies;
  Target y;
  int64_t heads = 0, d = 0, half = 0;
  float scale = 1;
  bool interleaved = false, inverse = false;
  HD void operator()(int64_t unit) const {
    const int64_t width = d - half, k = unit % width, head = unit / width;
    const int64_t at = head * d;
    if (k >= half) {
      const int64_t passed = at + half + k;  // 2 * half + (k - half)
      return y.Set(passed, x.F(passed));
    }
    const float angle = static_cast<float>(positions.I(head / heads)) * frequencies.F(k);
    const float cosine = std::cos(angle) * scale;
    const float sine = std::sin(angle) * (inverse ? -scale : scale);
    const int64_t first = at + (interleaved ? 2 * k : k);
    const int64_t second = interleaved ? first + 1 : first + half;
    const float x1 = x.F(first), x2 = x.F(second);
    y.Set(first, x1 * cosine - x2 * sine);
    y.Set(second, x2 * cosine + x1 * sine);
  }
};

// embedding: one element.
struct EmbeddingElement {
  Source table, ids;
  Target y;
  int64_t rows = 0, c = 0, origin = 0;
  bool part = false;  // of a larger table: other ids give zeros
  HD void operator()(int64_t i) const {
    const int64_t row = ids.I(i / c) - origin;
    if (row >= 0 && row < rows) return y.Set(i, table.F(row * c + i % c));
    y.Set(i, part ? 0.0f : std::numeric_limits<float>::quiet_NaN());
  }
};

// embedding_grad, step 1: next[n] is the next position with position n's id (-1: none), first[n]
// whether none before n has it. Positions outside the table are nobody's first. Quadratic in the
// positions of a micro-batch, whose ids lie in cache: no sort, no atomics, one order.
struct LinkPositions {
  Source ids;
  int32_t* next = nullptr;
  int32_t* first = nullptr;
  int64_t count = 0, rows = 0, origin = 0;
  HD void operator()(int64_t n) const {
    const int64_t id = ids.I(n), row = id - origin;
    bool leads = row >= 0 && row < rows;
    for (int64_t m = 0; m < n && leads; ++m) leads = ids.I(m) != id;
    int64_t m = n + 1;
    while (m < count && ids.I(m) != id) ++m;
    next[n] = static_cast<int32_t>(m < count ? m : -1);
    first[n] = leads ? 1 : 0;
  }
};

// Step 2, unit n * c + j: if n is its row's first, element j of the row from all its positions in
// order. Rows without positions are zero beforehand.
struct AddPositions {
  Source dy, ids;
  Target y;
  const int32_t* next = nullptr;
  const int32_t* first = nullptr;
  int64_t c = 0, origin = 0;
  HD void operator()(int64_t unit) const {
    const int64_t n = unit / c, j = unit % c;
    if (first[n] == 0) return;
    float sum = 0;
    for (int64_t m = n; m >= 0; m = next[m]) sum += dy.F(m * c + j);
    y.Set((ids.I(n) - origin) * c + j, sum);
  }
};

// dropout: one element; its place in the global dims names its random number.
struct DropoutElement {
  Source x, key, first_row, positions;
  Target y;
  int rank = 1;
  int64_t dims[kMaxRank] = {}, origin[kMaxRank] = {}, global[kMaxRank] = {};
  uint64_t site = 0;
  double rate = 0;
  float scale = 1;
  HD void operator()(int64_t i) const {
    int64_t place = 0, step = 1, rest = i;
    for (int d = rank - 1; d >= 0; --d) {
      int64_t at = (d > 0 ? rest % dims[d] : rest) + origin[d];
      if (d == 1 && positions.present()) at = positions.I(rest);
      if (d == 0) at += first_row.I(0);
      place += at * step;
      step *= global[d];
      rest /= dims[d];
    }
    const RandomKey random{static_cast<uint64_t>(key.I(0)), static_cast<uint64_t>(key.I(1))};
    const float uniform = UniformFloat(random, site, static_cast<uint64_t>(place));
    y.Set(i, uniform >= rate ? x.F(i) * scale : 0.0f);
  }
};

// topk: one row, k passes; of equal scores the lower index comes first, and nothing is
// greater than NaN or less.
struct TopkRow {
  Source scores;
  Target values;
  int32_t* indices = nullptr;
  int64_t entries = 0, k = 0;
  HD bool Taken(int64_t row, int64_t slots, int64_t j) const {
    for (int64_t s = 0; s < slots; ++s) {
      if (indices[row * k + s] == j) return true;
    }
    return false;
  }
  HD void operator()(int64_t row) const {
    for (int64_t slot = 0; slot < k; ++slot) {
      int64_t best = -1;
      float top = 0;
      for (int64_t j = 0; j < entries; ++j) {
        const float score = scores.F(row * entries + j);
        if ((best < 0 || score > top) && !Taken(row, slot, j)) {
          best = j;
          top = score;
        }
      }
      indices[row * k + slot] = static_cast<int32_t>(best);
      values.Set(row * k + slot, top);
    }
  }
};

// topk_grad: one element of dscores.
struct TopkGradient {
  Source dvalues, indices;
  Target dscores;
  int64_t entries = 0, k = 0;
  HD void operator()(int64_t i) const {
    const int64_t row = i / entries, j = i % entries;
    float value = 0;
    for (int64_t slot = 0; slot < k; ++slot) {
      if (indices.I(row * k + slot) == j) value = dvalues.F(row * k + slot);
    }
    dscores.Set(i, value);
  }
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_FUNCTORS_ROWS_H_
