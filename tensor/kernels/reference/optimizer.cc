#include "tensor/kernels/reference/reference.h"

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

}  // namespace

template <class S>
void AdamwReference(const ReferenceCall& call) {
  const Attributes& a = call.attributes();
  Rounder<S> r{call.x(0).type().dtype != DType::kF64};
  S beta1 = r.Constant(a.Float("beta1")), one_minus_beta1 = r.Constant(1 - a.Float("beta1"));
  S beta2 = r.Constant(a.Float("beta2")), one_minus_beta2 = r.Constant(1 - a.Float("beta2"));
  S epsilon = r.Constant(a.Float("epsilon")), weight_decay = r.Constant(a.Float("weight_decay"));
  S learning_rate(call.x(4).Get(0)), grad_scale(call.x(5).Get(0));
  S decay = r(S(1) - r(learning_rate * weight_decay));
  S step = r(learning_rate / S(call.x(6).Get(0))), root2 = r(Sqrt(S(call.x(7).Get(0))));
  for (int64_t i = 0; i < call.x(0).elements(); ++i) {
    S g = r(S(call.x(1).Get(i)) * grad_scale);
    S m = r(r(beta1 * S(call.x(2).Get(i))) + r(one_minus_beta1 * g));
    S v = r(r(beta2 * S(call.x(3).Get(i))) + r(r(one_minus_beta2 * g) * g));
    S p = r(S(call.x(0).Get(i)) * decay);
    S denominator = r(r(r(Sqrt(v)) / root2) + epsilon);
    p = r(p - r(r(step * m) / denominator));
    call.y(0).Set(i, ToDouble(p));
    call.y(1).Set(i, ToDouble(m));
    call.y(2).Set(i, ToDouble(v));
    if (call.y_count() > 3) call.y(3).Set(i, ToDouble(p));
  }
}
COLOSSUS_INSTANTIATE_REFERENCE(AdamwReference)

template <class S>
void SgdReference(const ReferenceCall& call) {
  Rounder<S> r{call.x(0).type().dtype != DType::kF64};
  S momentum = r.Constant(call.attributes().Float("momentum"));
  S weight_decay = r.Constant(call.attributes().Float("weight_decay"));
  S learning_rate(call.x(3).Get(0)), grad_scale(call.x(4).Get(0));
  for (int64_t i = 0; i < call.x(0).elements(); ++i) {
    S p(call.x(0).Get(i));
    S g = r(r(S(call.x(1).Get(i)) * grad_scale) + r(weight_decay * p));
    S u = r(r(momentum * S(call.x(2).Get(i))) + g);
    p = r(p - r(learning_rate * u));
    call.y(0).Set(i, ToDouble(p));
    call.y(1).Set(i, ToDouble(u));
    if (call.y_count() > 2) call.y(2).Set(i, ToDouble(p));
  }
}
COLOSSUS_INSTANTIATE_REFERENCE(SgdReference)

}  // namespace colossus
