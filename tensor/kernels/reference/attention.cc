#include "tensor/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "tensor/kernels/reference/reference.h"

namespace colossus {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// Everything a (batch, head, query, key) quadruple asks of a call.
template <class S>
class AttentionScores {
 public:
  AttentionScores(const ReferenceCall& call, int fixed)
      : call_(call), p_(DescribeAttention(call.op_call(), fixed)), q_(fixed == 3 ? 0 : 1) {
    if (p_.dropout_rate == 0) return;
    key_ = {static_cast<uint64_t>(call.x(p_.dropout_key).GetInt(0)),
            static_cast<uint64_t>(call.x(p_.dropout_key).GetInt(1))};
    site_ = SiteId(call.attributes().String("site"));
    first_row_ = call.x(p_.first_row).GetInt(0);
  }
  const AttentionProblem& problem() const { return p_; }

  int64_t QueryPosition(int64_t b, int64_t i) const {
    if (p_.q_positions >= 0) return call_.x(p_.q_positions).GetInt(b * p_.s + i);
    return p_.origin[1] + i;
  }
  int64_t KeyPosition(int64_t b, int64_t j) const {
    if (p_.k_positions >= 0) return call_.x(p_.k_positions).GetInt(b * p_.t + j);
    return p_.key_origin + j;
  }

  bool Visible(int64_t b, int64_t i, int64_t j) const {
    int64_t distance = QueryPosition(b, i) - KeyPosition(b, j);
    if (p_.q_segments >= 0 && call_.x(p_.q_segments).GetInt(b * p_.s + i) !=
                                  call_.x(p_.k_segments).GetInt(b * p_.t + j)) {
      return false;
    }
    if (p_.causal && distance < 0) return false;
    if (p_.window > 0 && distance >= p_.window) return false;
    return p_.kv_length < 0 || p_.key_origin + j < call_.x(p_.kv_length).GetInt(b);
  }

  // `cap`: the tanh of the softcap, which the gradient needs.
  S Score(int64_t b, int64_t h, int64_t i, int64_t j, S& cap) const {
    S sum(0);
    for (int64_t d = 0; d < p_.d; ++d) sum += Q(b, i, h, d) * K(b, j, h, d);
    sum *= S(p_.scale);
    if (p_.softcap > 0) {
      cap = Tanh(sum / S(p_.softcap));
      sum = cap * S(p_.softcap);
    }
    if (p_.slopes >= 0) {
      double distance = static_cast<double>(KeyPosition(b, j) - QueryPosition(b, i));
      sum += S(call_.x(p_.slopes).Get(h)) * S(distance);
    }
    if (p_.bias >= 0) sum += S(call_.x(p_.bias).Get(BiasOffset(b, h, i, j)));
    return sum;
  }

  // Factor of a probability: 0 or 1 / (1 - rate).
  S Dropout(int64_t b, int64_t h, int64_t i, int64_t j) const {
    int64_t row = first_row_ + p_.origin[0] + b;
    int64_t head = row * p_.global[2] + p_.origin[2] + h;
    int64_t element =
        (head * p_.global[1] + QueryPosition(b, i)) * p_.key_global + KeyPosition(b, j);
    float uniform = UniformFloat(key_, site_, static_cast<uint64_t>(element));
    return S(uniform >= p_.dropout_rate ? 1 / (1 - p_.dropout_rate) : 0);
  }

  int64_t Group(int64_t h) const { return h / (p_.h / p_.g); }
  int64_t BiasOffset(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return (((p_.bias_per_batch ? b : 0) * p_.h + h) * p_.s + i) * p_.t + j;
  }
  int64_t QOffset(int64_t b, int64_t i, int64_t h, int64_t d) const {
    return ((b * p_.s + i) * p_.h + h) * p_.d + d;
  }
  int64_t OutOffset(int64_t b, int64_t i, int64_t h, int64_t e) const {
    return ((b * p_.s + i) * p_.h + h) * p_.e + e;
  }
  int64_t KOffset(int64_t b, int64_t j, int64_t h, int64_t d) const {
    return ((b * p_.t + j) * p_.g + Group(h)) * p_.d + d;
  }
  int64_t VOffset(int64_t b, int64_t j, int64_t h, int64_t e) const {
    return ((b * p_.t + j) * p_.g + Group(h)) * p_.e + e;
  }
  int64_t LseOffset(int64_t b, int64_t h, int64_t i) const { return (b * p_.h + h) * p_.s + i; }
  S Q(int64_t b, int64_t i, int64_t h, int64_t d) const {
    return S(call_.x(q_).Get(QOffset(b, i, h, d)));
  }
  S K(int64_t b, int64_t j, int64_t h, int64_t d) const {
    return S(call_.x(q_ + 1).Get(KOffset(b, j, h, d)));
  }
  S V(int64_t b, int64_t j, int64_t h, int64_t e) const {
    return S(call_.x(q_ + 2).Get(VOffset(b, j, h, e)));
  }

 private:
  const ReferenceCall& call_;
  AttentionProblem p_;
  int q_;
  RandomKey key_;
  uint64_t site_ = 0;
  int64_t first_row_ = 0;
};

template <class S>
void AttendOneQuery(const ReferenceCall& call, const AttentionScores<S>& scores, int64_t b,
                    int64_t h, int64_t i) {
  const AttentionProblem& p = scores.problem();
  std::vector<int64_t> keys;
  std::vector<S> weights, out(p.e);
  S maximum(kMinusInfinity), sum(0), unused(0);
  for (int64_t j = 0; j < p.t; ++j) {
    if (!scores.Visible(b, i, j)) continue;
    keys.push_back(j);
    weights.push_back(scores.Score(b, h, i, j, unused));
    maximum = Max(maximum, weights.back());
  }
  const bool any = std::any_of(weights.begin(), weights.end(),
                               [](const S& score) { return ToDouble(score) != kMinusInfinity; });
  if (!any) {  // a bias may hide every visible key
    keys.clear();
    weights.clear();
  }
  for (S& weight : weights) {
    weight = Exp(weight - maximum);
    sum += weight;
  }
  for (size_t n = 0; n < keys.size(); ++n) {
    S probability = weights[n] / sum;
    if (p.dropout_rate > 0) probability *= scores.Dropout(b, h, i, keys[n]);
    for (int64_t e = 0; e < p.e; ++e) out[e] += probability * scores.V(b, keys[n], h, e);
  }
  for (int64_t e = 0; e < p.e; ++e) call.y(0).Set(scores.OutOffset(b, i, h, e), ToDouble(out[e]));
  double lse = keys.empty() ? ToDouble(maximum) : ToDouble(maximum + Log(sum));
  call.y(1).Set(scores.LseOffset(b, h, i), lse);
}

template <class S>
struct AttentionGradients {
  std::vector<S> dq, dk, dv, dbias;
};

template <class S>
void GradientOfOneQuery(const ReferenceCall& call, const AttentionScores<S>& scores, int64_t b,
                        int64_t h, int64_t i, AttentionGradients<S>& gradients) {
  const AttentionProblem& p = scores.problem();
  auto dout = [&](int64_t e) { return S(call.x(0).Get(scores.OutOffset(b, i, h, e))); };
  S lse(call.x(5).Get(scores.LseOffset(b, h, i))), mean(0);
  if (ToDouble(lse) == kMinusInfinity) return;  // no key
  for (int64_t e = 0; e < p.e; ++e) {
    mean += dout(e) * S(call.x(4).Get(scores.OutOffset(b, i, h, e)));
  }
  for (int64_t j = 0; j < p.t; ++j) {
    if (!scores.Visible(b, i, j)) continue;
    S cap(0), dprobability(0);
    S probability = Exp(scores.Score(b, h, i, j, cap) - lse), kept = probability;
    for (int64_t e = 0; e < p.e; ++e) dprobability += dout(e) * scores.V(b, j, h, e);
    if (p.dropout_rate > 0) {
      S factor = scores.Dropout(b, h, i, j);
      dprobability *= factor;
      kept *= factor;
    }
    for (int64_t e = 0; e < p.e; ++e) gradients.dv[scores.VOffset(b, j, h, e)] += kept * dout(e);
    S dscore = probability * (dprobability - mean);
    if (p.bias >= 0) gradients.dbias[scores.BiasOffset(b, h, i, j)] += dscore;
    if (p.softcap > 0) dscore *= S(1) - cap * cap;
    dscore *= S(p.scale);
    for (int64_t d = 0; d < p.d; ++d) {
      gradients.dq[scores.QOffset(b, i, h, d)] += dscore * scores.K(b, j, h, d);
      gradients.dk[scores.KOffset(b, j, h, d)] += dscore * scores.Q(b, i, h, d);
    }
  }
}

template <class S>
void Store(const std::vector<S>& values, const MutableTensorView& y) {
  for (int64_t i = 0; i < y.elements(); ++i) y.Set(i, ToDouble(values[i]));
}

}  // namespace

template <class S>
void AttentionReference(const ReferenceCall& call) {
  AttentionScores<S> scores(call, 3);
  const AttentionProblem& p = scores.problem();
  ForEachIndex({p.b, p.h, p.s}, [&](const Dims& index) {
    AttendOneQuery(call, scores, index[0], index[1], index[2]);
  });
}
COLOSSUS_INSTANTIATE_REFERENCE(AttentionReference)

template <class S>
void AttentionGradReference(const ReferenceCall& call) {
  AttentionScores<S> scores(call, 6);
  const AttentionProblem& p = scores.problem();
  AttentionGradients<S> gradients;
  gradients.dq.resize(call.y(0).elements());
  gradients.dk.resize(call.y(1).elements());
  gradients.dv.resize(call.y(2).elements());
  if (p.bias >= 0) gradients.dbias.resize(call.y(3).elements());
  ForEachIndex({p.b, p.h, p.s}, [&](const Dims& index) {
    GradientOfOneQuery(call, scores, index[0], index[1], index[2], gradients);
  });
  Store(gradients.dq, call.y(0));
  Store(gradients.dk, call.y(1));
  Store(gradients.dv, call.y(2));
  if (p.bias >= 0) Store(gradients.dbias, call.y(3));
}
COLOSSUS_INSTANTIATE_REFERENCE(AttentionGradReference)

}  // namespace colossus
