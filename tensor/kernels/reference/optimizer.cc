#include "tensor/ops/optimizer.h"

#include <vector>

#include "base/random.h"
#include "tensor/kernels/reference/reference.h"
#include "tensor/ops/element_segments.h"
#include "tensor/ops/stochastic_rounding.h"

namespace colossus {
namespace {

// Rounds every intermediate to the master's dtype: a double operation rounded to f32 is the f32
// operation.
template <class S>
struct Rounder {
  bool narrow;
  S operator()(S value) const {
    return narrow ? S(static_cast<double>(static_cast<float>(ToDouble(value)))) : value;
  }
  S Constant(double value) const { return (*this)(S(value)); }
};

// Stores moments, at random where they are bf16.
class MomentStore {
 public:
  explicit MomentStore(const ReferenceCall& call)
      : call_(call), narrow_(HasNarrowMoments(call.attributes())), runs_(call.attributes()) {
    if (!narrow_) return;
    const TensorView key = call.x(call.x_count() - 1);
    key_ = {static_cast<uint64_t>(key.GetInt(0)), static_cast<uint64_t>(key.GetInt(1))};
  }

  void Begin(int parameter, int64_t elements) {
    bits_.assign(static_cast<size_t>(narrow_ ? elements : 0), 0);
    runs_.ForEach(parameter, 0, static_cast<int64_t>(bits_.size()),
                  [&](int64_t at, int64_t count, uint64_t site, uint64_t element) {
                    for (int64_t i = 0; i < count; ++i) {
                      bits_[at + i] = RandomBits(key_, site, element + static_cast<uint64_t>(i));
                    }
                  });
  }
  // `second`: of two moments of an element.
  void Set(int result, int64_t i, double value, bool second) const {
    if (narrow_) {
      const uint32_t bits = second ? HighHalf(bits_[i]) : LowHalf(bits_[i]);
      value = ToDouble(RoundStochastically(static_cast<float>(value), bits));
    }
    call_.y(result).Set(i, value);
  }

 private:
  const ReferenceCall& call_;
  const bool narrow_;
  const ElementRuns runs_;
  RandomKey key_;
  std::vector<uint32_t> bits_;  // of a parameter's elements
};

}  // namespace

template <class S>
void AdamwReference(const ReferenceCall& call) {
  const Attributes& a = call.attributes();
  Rounder<S> r{call.x(0).type().dtype != DType::kF64};
  S beta1 = r.Constant(a.Float("beta1")), one_minus_beta1 = r.Constant(1 - a.Float("beta1"));
  S beta2 = r.Constant(a.Float("beta2")), one_minus_beta2 = r.Constant(1 - a.Float("beta2"));
  S epsilon = r.Constant(a.Float("epsilon"));
  const Floats& weight_decay = a.FloatList("weight_decay");
  const int parameters = static_cast<int>(weight_decay.size()), scalars = 4 * parameters;
  const int results = call.y_count() / parameters;
  S learning_rate(call.x(scalars).Get(0)), grad_scale(call.x(scalars + 1).Get(0));
  S step = r(learning_rate / S(call.x(scalars + 2).Get(0)));
  S root2 = r(Sqrt(S(call.x(scalars + 3).Get(0))));
  MomentStore moments(call);
  for (int parameter = 0; parameter < parameters; ++parameter) {
    const int x = 4 * parameter, y = results * parameter;
    moments.Begin(parameter, call.x(x).elements());
    S decay = r(S(1) - r(learning_rate * r.Constant(weight_decay[parameter])));
    for (int64_t i = 0; i < call.x(x).elements(); ++i) {
      S g = r(S(call.x(x + 1).Get(i)) * grad_scale);
      S m = r(r(beta1 * S(call.x(x + 2).Get(i))) + r(one_minus_beta1 * g));
      S v = r(r(beta2 * S(call.x(x + 3).Get(i))) + r(r(one_minus_beta2 * g) * g));
      S p = r(S(call.x(x).Get(i)) * decay);
      S denominator = r(r(r(Sqrt(v)) / root2) + epsilon);
      p = r(p - r(r(step * m) / denominator));
      call.y(y).Set(i, ToDouble(p));
      moments.Set(y + 1, i, ToDouble(m), /*second=*/false);
      moments.Set(y + 2, i, ToDouble(v), /*second=*/true);
      if (results > 3) call.y(y + 3).Set(i, ToDouble(p));
    }
  }
}
COLOSSUS_INSTANTIATE_REFERENCE(AdamwReference)

template <class S>
void SgdReference(const ReferenceCall& call) {
  Rounder<S> r{call.x(0).type().dtype != DType::kF64};
  S momentum = r.Constant(call.attributes().Float("momentum"));
  const Floats& decays = call.attributes().FloatList("weight_decay");
  const int parameters = static_cast<int>(decays.size()), scalars = 3 * parameters;
  const int results = call.y_count() / parameters;
  S learning_rate(call.x(scalars).Get(0)), grad_scale(call.x(scalars + 1).Get(0));
  MomentStore moments(call);
  for (int parameter = 0; parameter < parameters; ++parameter) {
    const int x = 3 * parameter, y = results * parameter;
    moments.Begin(parameter, call.x(x).elements());
    S weight_decay = r.Constant(decays[parameter]);
    for (int64_t i = 0; i < call.x(x).elements(); ++i) {
      S p(call.x(x).Get(i));
      S g = r(r(S(call.x(x + 1).Get(i)) * grad_scale) + r(weight_decay * p));
      S u = r(r(momentum * S(call.x(x + 2).Get(i))) + g);
      p = r(p - r(learning_rate * u));
      call.y(y).Set(i, ToDouble(p));
      moments.Set(y + 1, i, ToDouble(u), /*second=*/false);
      if (results > 2) call.y(y + 2).Set(i, ToDouble(p));
    }
  }
}
COLOSSUS_INSTANTIATE_REFERENCE(SgdReference)

}  // namespace colossus
