// attention and its gradient as functors: a warp per query row, or per key row.
//
// The simple correct form: scores are never stored, the softmax is made online, and the gradient
// computes every score again from the stored log-sum-exp, once for dq and once for dk and dv, so
// that nothing is added atomically and the same run gives the same bits.
// Thread-safety: plain values. Ownership: views of device memory.
#ifndef COLOSSUS_TENSOR_KERNELS_FUNCTORS_ATTENTION_H_
#define COLOSSUS_TENSOR_KERNELS_FUNCTORS_ATTENTION_H_

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/random.h"
#include "tensor/kernels/functors/element.h"
#include "tensor/kernels/functors/team.h"

namespace colossus {

// What tensor/ops/attention.h says of one call. Absent operands have no data.
struct AttentionInputs {
  Source q, k, v;
  Source q_segments, k_segments, q_positions, k_positions, kv_length, slopes, bias;
  Source dropout_key, first_row;
  int64_t b = 0, s = 0, t = 0, h = 0, g = 0, d = 0, e = 0;
  int64_t origin_b = 0, origin_s = 0, origin_h = 0, global_s = 0, global_h = 0;
  int64_t key_origin = 0, key_global = 0, window = 0;
  float scale = 1, softcap = 0;
  double dropout_rate = 0;
  uint64_t site = 0;
  bool causal = false, bias_per_batch = false;

  HD int64_t Group(int64_t head) const { return head / (h / g); }
  HD int64_t QRow(int64_t batch, int64_t i, int64_t head) const {
    return (batch * s + i) * h + head;
  }
  HD int64_t KRow(int64_t batch, int64_t j, int64_t group) const {
    return (batch * t + j) * g + group;
  }
  HD int64_t QueryPosition(int64_t batch, int64_t i) const {
    return q_positions.present() ? q_positions.I(batch * s + i) : origin_s + i;
  }
  HD int64_t KeyPosition(int64_t batch, int64_t j) const {
    return k_positions.present() ? k_positions.I(batch * t + j) : key_origin + j;
  }
  HD bool Visible(int64_t batch, int64_t i, int64_t j) const {
    const int64_t distance = QueryPosition(batch, i) - KeyPosition(batch, j);
    if (causal && distance < 0) return false;
    if (window > 0 && distance >= window) return false;
    if (q_segments.present() && q_segments.I(batch * s + i) != k_segments.I(batch * t + j)) {
      return false;
    }
    return !kv_length.present() || key_origin + j < kv_length.I(batch);
  }
  HD int64_t BiasOffset(int64_t batch, int64_t head, int64_t i, int64_t j) const {
    return (((bias_per_batch ? batch : 0) * h + head) * s + i) * t + j;
  }
  // The score of a product q.k; `cap`: the tanh of the soft cap.
  HD float Score(float product, int64_t batch, int64_t head, int64_t i, int64_t j,
                 float& cap) const {
    float score = product * scale;
    if (softcap > 0) {
      cap = std::tanh(score / softcap);
      score = cap * softcap;
    }
    if (slopes.present()) {
      score += slopes.F(head) *
               static_cast<float>(KeyPosition(batch, j) - QueryPosition(batch, i));
    }
    if (bias.present()) score += bias.F(BiasOffset(batch, head, i, j));
    return score;
  }
  // Factor of a probability: 0 or 1 / (1 - rate).
  HD float Dropout(int64_t batch, int64_t head, int64_t i, int64_t j) const {
    if (dropout_rate == 0) return 1;
    const int64_t row = first_row.I(0) + origin_b + batch;
    const int64_t element =
        ((row * global_h + origin_h + head) * global_s + QueryPosition(batch, i)) * key_global +
        KeyPosition(batch, j);
    const RandomKey key{static_cast<uint64_t>(dropout_key.I(0)),
                        static_cast<uint64_t>(dropout_key.I(1))};
    const float uniform = UniformFloat(key, site, static_cast<uint64_t>(element));
    return uniform >= dropout_rate ? static_cast<float>(1 / (1 - dropout_rate)) : 0.0f;
  }
  // With default positions the visible keys of query i lie in [*first, *last), and the visible
  // queries of key j likewise.
  HD void KeyRange(int64_t i, int64_t* first, int64_t* last) const {
    *first = 0;
    *last = t;
    if (q_positions.present() || k_positions.present()) return;
    const int64_t self = origin_s + i - key_origin;  // the key at the query's position
    if (causal && self + 1 < *last) *last = self + 1 > 0 ? self + 1 : 0;
    if (window > 0 && self - window + 1 > 0) *first = self - window + 1;
  }
  HD void QueryRange(int64_t j, int64_t* first, int64_t* last) const {
    *first = 0;
    *last = s;
    if (q_positions.present() || k_positions.present()) return;
    const int64_t self = key_origin + j - origin_s;  // the query at the key's position
    if (causal && self > 0) *first = self;
    if (window > 0 && self + window < *last) *last = self + window > 0 ? self + window : 0;
  }
};

// Unit (batch * s + i) * h + head. kSlots * 32 >= d and e.
template <int kSlots>
struct AttentionRow {
  static constexpr int kLanes = 32;
  AttentionInputs in;
  Target out;
  float* lse = nullptr;  // [b, h, s]

  HD void operator()(const Team<32>& team, int64_t unit) const {
    const int64_t head = unit % in.h, i = unit / in.h % in.s, batch = unit / in.h / in.s;
    const int64_t group = in.Group(head);
    LaneArray<float, kSlots> q, sums;
    team.template ForEachSlot<kSlots>(in.d, [&](int slot, int64_t c) {
      q(slot, c) = in.q.F(unit * in.d + c);
    });
    float top = -std::numeric_limits<float>::infinity(), total = 0, unused = 0;
    int64_t first, last;
    in.KeyRange(i, &first, &last);
    for (int64_t j = first; j < last; ++j) {
      if (!in.Visible(batch, i, j)) continue;
      const int64_t key = in.KRow(batch, j, group);
      const float product = team.template SumSlots<kSlots>(in.d, [&](int slot, int64_t c) {
        return q(slot, c) * in.k.F(key * in.d + c);
      });
      const float score = in.Score(product, batch, head, i, j, unused);
      float weight = 1, shrink = 1;
      if (score > top) {
        shrink = std::exp(top - score);  // 0 at the first key
        top = score;
      } else {
        // A bias of minus infinity hides its key, also before any other was seen.
        weight = score == -std::numeric_limits<float>::infinity() ? 0.0f : std::exp(score - top);
      }
      total = total * shrink + weight;
      const float kept = weight * in.Dropout(batch, head, i, j);
      team.template ForEachSlot<kSlots>(in.e, [&](int slot, int64_t c) {
        sums(slot, c) = sums(slot, c) * shrink + kept * in.v.F(key * in.e + c);
      });
    }
    const float scale = total > 0 ? 1.0f / total : (total == 0 ? 0.0f : total);
    team.template ForEachSlot<kSlots>(in.e, [&](int slot, int64_t c) {
      out.Set(unit * in.e + c, sums(slot, c) * scale);
    });
    team.Once([&] {
      lse[(batch * in.h + head) * in.s + i] = total == 0 ? top : top + std::log(total);
    });
  }
};

// What the gradients of one (query, key) pair have in common.
struct AttentionGradientInputs {
  AttentionInputs in;
  Source dout, out;
  const float* lse = nullptr;   // [b, h, s]
  float* means = nullptr;       // [b, s, h]: dout.out per query row
};

struct PairGradient {
  float kept;    // probability times its dropout factor
  float dscore;  // of the score before the bias, soft cap still to come
  float cap;
};

// The gradient of a score, from the products q.k and dout.v.
HD PairGradient GradientOfPair(const AttentionGradientInputs& a, float product, float dprobability,
                               int64_t batch, int64_t head, int64_t i, int64_t j) {
  PairGradient pair{0, 0, 0};
  const float score = a.in.Score(product, batch, head, i, j, pair.cap);
  const float lse = a.lse[(batch * a.in.h + head) * a.in.s + i];
  // All visible keys of the query may be hidden by a bias of minus infinity.
  const bool any = lse != -std::numeric_limits<float>::infinity();
  const float probability = any ? std::exp(score - lse) : 0.0f;
  const float factor = a.in.Dropout(batch, head, i, j);
  pair.kept = probability * factor;
  pair.dscore = probability * (dprobability * factor - a.means[a.in.QRow(batch, i, head)]);
  return pair;
}

// The same through soft cap and scale: of the product q.k.
HD float GradientOfProduct(const AttentionInputs& in, const PairGradient& pair) {
  float dscore = pair.dscore;
  if (in.softcap > 0) dscore *= 1.0f - pair.cap * pair.cap;
  return dscore * in.scale;
}

// Step 1, unit as AttentionRow: the means.
struct AttentionMeans {
  static constexpr int kLanes = 32;
  AttentionGradientInputs a;
  HD void operator()(const Team<32>& team, int64_t unit) const {
    const float mean = team.Sum<float>(a.in.e, [&](int64_t c) {
      return a.dout.F(unit * a.in.e + c) * a.out.F(unit * a.in.e + c);
    });
    team.Once([&] { a.means[unit] = mean; });
  }
};

// Step 2: dq of one query row.
template <int kSlots>
struct AttentionQueryGradient {
  static constexpr int kLanes = 32;
  AttentionGradientInputs a;
  Target dq;

  HD void operator()(const Team<32>& team, int64_t unit) const {
    const AttentionInputs& in = a.in;
    const int64_t head = unit % in.h, i = unit / in.h % in.s, batch = unit / in.h / in.s;
    LaneArray<float, kSlots> q, dout, sums;
    team.template ForEachSlot<kSlots>(in.d, [&](int slot, int64_t c) {
      q(slot, c) = in.q.F(unit * in.d + c);
    });
    team.template ForEachSlot<kSlots>(in.e, [&](int slot, int64_t c) {
      dout(slot, c) = a.dout.F(unit * in.e + c);
    });
    int64_t first, last;
    in.KeyRange(i, &first, &last);
    for (int64_t j = first; j < last; ++j) {
      if (!in.Visible(batch, i, j)) continue;
      const int64_t key = in.KRow(batch, j, in.Group(head));
      const float product = team.template SumSlots<kSlots>(in.d, [&](int slot, int64_t c) {
        return q(slot, c) * in.k.F(key * in.d + c);
      });
      const float dprobability = team.template SumSlots<kSlots>(in.e, [&](int slot, int64_t c) {
        return dout(slot, c) * in.v.F(key * in.e + c);
      });
      const PairGradient pair = GradientOfPair(a, product, dprobability, batch, head, i, j);
      const float dproduct = GradientOfProduct(in, pair);
      team.template ForEachSlot<kSlots>(in.d, [&](int slot, int64_t c) {
        sums(slot, c) += dproduct * in.k.F(key * in.d + c);
      });
    }
    team.template ForEachSlot<kSlots>(in.d, [&](int slot, int64_t c) {
      dq.Set(unit * in.d + c, sums(slot, c));
    });
  }
};

// Step 3, unit (batch * t + j) * g + group: dk and dv of one key row, from the group's heads in
// order, each with its queries in order.
template <int kSlots>
struct AttentionKeyGradient {
  static constexpr int kLanes = 32;
  AttentionGradientInputs a;
  Target dk, dv;

  HD void operator()(const Team<32>& team, int64_t unit) const {
    const AttentionInputs& in = a.in;
    const int64_t group = unit % in.g, j = unit / in.g % in.t, batch = unit / in.g / in.t;
    const int64_t heads = in.h / in.g;
    LaneArray<float, kSlots> k, v, dk_sums, dv_sums;
    team.template ForEachSlot<kSlots>(in.d, [&](int slot, int64_t c) {
      k(slot, c) = in.k.F(unit * in.d + c);
    });
    team.template ForEachSlot<kSlots>(in.e, [&](int slot, int64_t c) {
      v(slot, c) = in.v.F(unit * in.e + c);
    });
    int64_t first, last;
    in.QueryRange(j, &first, &last);
    for (int64_t head = group * heads; head < (group + 1) * heads; ++head) {
      for (int64_t i = first; i < last; ++i) {
        if (!in.Visible(batch, i, j)) continue;
        const int64_t query = in.QRow(batch, i, head);
        const float product = team.template SumSlots<kSlots>(in.d, [&](int slot, int64_t c) {
          return in.q.F(query * in.d + c) * k(slot, c);
        });
        const float dprobability = team.template SumSlots<kSlots>(in.e, [&](int slot, int64_t c) {
          return a.dout.F(query * in.e + c) * v(slot, c);
        });
        const PairGradient pair = GradientOfPair(a, product, dprobability, batch, head, i, j);
        const float dproduct = GradientOfProduct(in, pair);
        team.template ForEachSlot<kSlots>(in.d, [&](int slot, int64_t c) {
          dk_sums(slot, c) += dproduct * in.q.F(query * in.d + c);
        });
        team.template ForEachSlot<kSlots>(in.e, [&](int slot, int64_t c) {
          dv_sums(slot, c) += pair.kept * a.dout.F(query * in.e + c);
        });
      }
    }
    team.template ForEachSlot<kSlots>(in.d, [&](int slot, int64_t c) {
      dk.Set(unit * in.d + c, dk_sums(slot, c));
    });
    team.template ForEachSlot<kSlots>(in.e, [&](int slot, int64_t c) {
      dv.Set(unit * in.e + c, dv_sums(slot, c));
    });
  }
};

// Step 4, only with a bias: one element of dbias, from the batch entries in order.
struct AttentionBiasGradient {
  static constexpr int kLanes = 32;
  AttentionGradientInputs a;
  Target dbias;

  HD void operator()(const Team<32>& team, int64_t unit) const {
    const AttentionInputs& in = a.in;
    const int64_t j = unit % in.t, i = unit / in.t % in.s, rest = unit / in.t / in.s;
    const int64_t head = rest % in.h, entry = rest / in.h;
    const int64_t first = in.bias_per_batch ? entry : 0;
    const int64_t last = in.bias_per_batch ? entry + 1 : in.b;
    float sum = 0;
    for (int64_t batch = first; batch < last; ++batch) {
      if (!in.Visible(batch, i, j)) continue;
      const int64_t query = in.QRow(batch, i, head), key = in.KRow(batch, j, in.Group(head));
      const float product = team.Sum<float>(in.d, [&](int64_t c) {
        return in.q.F(query * in.d + c) * in.k.F(key * in.d + c);
      });
      const float dprobability = team.Sum<float>(in.e, [&](int64_t c) {
        return a.dout.F(query * in.e + c) * in.v.F(key * in.e + c);
      });
      sum += GradientOfPair(a, product, dprobability, batch, head, i, j).dscore;
    }
    team.Once([&] { dbias.Set(unit, sum); });
  }
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_FUNCTORS_ATTENTION_H_
