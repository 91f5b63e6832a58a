// The scalar functions of the pointwise ops, one row each.
#include <cmath>
#include <vector>

#include "tensor/kernels/reference/reference.h"

namespace colossus {
namespace {

// y[i] = fn(operand elements at i), with right-aligned broadcasting.
template <class S, class Fn>
void ForEachElement(const ReferenceCall& call, Fn fn) {
  MutableTensorView y = call.y(0);
  std::vector<S> x(call.x_count());
  int64_t at = 0;
  ForEachIndex(y.dims(), [&](const Dims& index) {
    for (int i = 0; i < call.x_count(); ++i) {
      x[i] = S(call.x(i).Get(BroadcastOffset(index, call.x(i).dims())));
    }
    y.Set(at++, ToDouble(fn(x)));
  });
}

template <class S>
S SigmoidOf(S x) {
  return S(1) / (S(1) + Exp(-x));
}

// The standard normal distribution function and its density.
template <class S>
S NormalCdf(S x) {
  return S(0.5) * (S(1) + Erf(x * S(std::sqrt(0.5))));
}

template <class S>
S NormalDensity(S x) {
  return S(1 / std::sqrt(2 * M_PI)) * Exp(S(-0.5) * (x * x));
}

// tanh(sqrt(2/pi) (x + 0.044715 x^3)), the heart of gelu_tanh.
template <class S>
S GeluTanhInner(S x) {
  return Tanh(S(std::sqrt(2 / M_PI)) * (x + S(0.044715) * (x * x * x)));
}

// Its derivative by x, where `t` is its value.
template <class S>
S GeluTanhSlope(S x, S t) {
  return (S(1) - t * t) * (S(std::sqrt(2 / M_PI)) * (S(1) + S(3 * 0.044715) * (x * x)));
}

template <class S>
S QuickGeluGradOf(S dy, S x) {
  S s = SigmoidOf(S(1.702) * x);
  return dy * (s * (S(1) + (S(1.702) * x) * (S(1) - s)));
}

template <class S>
S GeluTanhGradOf(S dy, S x) {
  S t = GeluTanhInner(x);
  return dy * (S(0.5) * (S(1) + t + x * GeluTanhSlope(x, t)));
}

template <class S>
S SiluGradOf(S dy, S x) {
  S s = SigmoidOf(x);
  return dy * (s * (S(1) + x * (S(1) - s)));
}

template <class S>
S Flag(bool value) {
  return S(value ? 1.0 : 0.0);
}

}  // namespace

#define COLOSSUS_POINTWISE(Function, expression)                                      \
  template <class S>                                                                  \
  void Function(const ReferenceCall& call) {                                          \
    ForEachElement<S>(call, [](const std::vector<S>& x) -> S { return expression; }); \
  }                                                                                   \
  COLOSSUS_INSTANTIATE_REFERENCE(Function)

COLOSSUS_POINTWISE(AddReference, x[0] + x[1])
COLOSSUS_POINTWISE(SubReference, x[0] - x[1])
COLOSSUS_POINTWISE(MulReference, x[0] * x[1])
COLOSSUS_POINTWISE(DivReference, x[0] / x[1])
COLOSSUS_POINTWISE(MaximumReference, Max(x[0], x[1]))
COLOSSUS_POINTWISE(MinimumReference, Min(x[0], x[1]))
COLOSSUS_POINTWISE(NegReference, -x[0])
COLOSSUS_POINTWISE(ExpReference, Exp(x[0]))
COLOSSUS_POINTWISE(LogReference, Log(x[0]))
COLOSSUS_POINTWISE(SqrtReference, Sqrt(x[0]))
COLOSSUS_POINTWISE(RsqrtReference, S(1) / Sqrt(x[0]))
COLOSSUS_POINTWISE(SquareReference, x[0] * x[0])
COLOSSUS_POINTWISE(AbsReference, Abs(x[0]))
COLOSSUS_POINTWISE(SinReference, Sin(x[0]))
COLOSSUS_POINTWISE(CosReference, Cos(x[0]))
COLOSSUS_POINTWISE(ErfReference, Erf(x[0]))
COLOSSUS_POINTWISE(TanhReference, Tanh(x[0]))
COLOSSUS_POINTWISE(SigmoidReference, SigmoidOf(x[0]))
COLOSSUS_POINTWISE(ReluReference, Max(x[0], S(0)))
COLOSSUS_POINTWISE(GeluReference, x[0] * NormalCdf(x[0]))
COLOSSUS_POINTWISE(GeluTanhReference, S(0.5) * x[0] * (S(1) + GeluTanhInner(x[0])))
COLOSSUS_POINTWISE(QuickGeluReference, x[0] * SigmoidOf(S(1.702) * x[0]))
COLOSSUS_POINTWISE(SiluReference, x[0] * SigmoidOf(x[0]))
COLOSSUS_POINTWISE(EqualReference, Flag<S>(x[0] == x[1]))
COLOSSUS_POINTWISE(LessReference, Flag<S>(x[0] < x[1]))
COLOSSUS_POINTWISE(LessEqualReference, Flag<S>(x[0] <= x[1]))
COLOSSUS_POINTWISE(GreaterReference, Flag<S>(x[0] > x[1]))
COLOSSUS_POINTWISE(GreaterEqualReference, Flag<S>(x[0] >= x[1]))
COLOSSUS_POINTWISE(LogicalAndReference, Flag<S>(ToDouble(x[0]) != 0 && ToDouble(x[1]) != 0))
COLOSSUS_POINTWISE(LogicalOrReference, Flag<S>(ToDouble(x[0]) != 0 || ToDouble(x[1]) != 0))
COLOSSUS_POINTWISE(LogicalNotReference, Flag<S>(ToDouble(x[0]) == 0))
COLOSSUS_POINTWISE(SelectReference, ToDouble(x[0]) != 0 ? x[1] : x[2])
// The gradients: x[0] is dy, x[1] the operand (of tanh and sigmoid the result) of the function.
COLOSSUS_POINTWISE(ReluGradReference, x[1] > S(0) ? x[0] : S(0))
COLOSSUS_POINTWISE(GeluGradReference, x[0] * (NormalCdf(x[1]) + x[1] * NormalDensity(x[1])))
COLOSSUS_POINTWISE(GeluTanhGradReference, GeluTanhGradOf(x[0], x[1]))
COLOSSUS_POINTWISE(QuickGeluGradReference, QuickGeluGradOf(x[0], x[1]))
COLOSSUS_POINTWISE(SiluGradReference, SiluGradOf(x[0], x[1]))
COLOSSUS_POINTWISE(TanhGradReference, x[0] * (S(1) - x[1] * x[1]))
COLOSSUS_POINTWISE(SigmoidGradReference, x[0] * (x[1] * (S(1) - x[1])))

template <class S>
void ScaleReference(const ReferenceCall& call) {
  S factor(call.attributes().Float("factor"));
  ForEachElement<S>(call, [&](const std::vector<S>& x) { return x[0] * factor; });
}
COLOSSUS_INSTANTIATE_REFERENCE(ScaleReference)

template <class S>
void AddScalarReference(const ReferenceCall& call) {
  S value(call.attributes().Float("value"));
  ForEachElement<S>(call, [&](const std::vector<S>& x) { return x[0] + value; });
}
COLOSSUS_INSTANTIATE_REFERENCE(AddScalarReference)

}  // namespace colossus
