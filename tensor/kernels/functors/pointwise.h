// Pointwise ops as functors: one element of the result each, with broadcasting.
//
// Thread-safety: plain values. Ownership: views of device memory.
//
//   Pointwise<float> f{.op = PointwiseKind::kGelu, ...};
#ifndef COLOSSUS_TENSOR_KERNELS_FUNCTORS_POINTWISE_H_
#define COLOSSUS_TENSOR_KERNELS_FUNCTORS_POINTWISE_H_

#include <cmath>
#include <cstdint>

#include "tensor/kernels/functors/element.h"
#include "tensor/kernels/functors/move.h"

namespace colossus {

// Ops that every compute type has, then those of floats only. X(name, expression of a, b, c and the
// attribute t, all T).
#define COLOSSUS_POINTWISE_NUMBERS(X)                    \
  X(add, a + b)                                          \
  X(sub, a - b)                                          \
  X(mul, a * b)                                          \
  X(maximum, a < b ? b : a)                              \
  X(minimum, b < a ? b : a)                              \
  X(equal, T(a == b))                                    \
  X(less, T(a < b))                                      \
  X(less_equal, T(a <= b))                               \
  X(greater, T(a > b))                                   \
  X(greater_equal, T(a >= b))                            \
  X(logical_and, T(a != T(0) && b != T(0)))              \
  X(logical_or, T(a != T(0) || b != T(0)))               \
  X(logical_not, T(a == T(0)))                           \
  X(select, a != T(0) ? b : c)
#define COLOSSUS_POINTWISE_FLOATS(X)                     \
  X(div, a / b)                                          \
  X(neg, -a)                                             \
  X(exp, std::exp(a))                                    \
  X(log, std::log(a))                                    \
  X(sqrt, std::sqrt(a))                                  \
  X(rsqrt, T(1) / std::sqrt(a))                          \
  X(square, a * a)                                       \
  X(abs, std::fabs(a))                                   \
  X(sin, std::sin(a))                                    \
  X(cos, std::cos(a))                                    \
  X(tanh, std::tanh(a))                                  \
  X(sigmoid, Sigmoid(a))                                 \
  X(erf, std::erf(a))                                    \
  X(relu, a < T(0) ? T(0) : a)                           \
  X(gelu, a * NormalCdf(a))                              \
  X(gelu_tanh, T(0.5) * a * (T(1) + GeluTanhInner(a)))   \
  X(quick_gelu, a * Sigmoid(T(1.702) * a))               \
  X(silu, a * Sigmoid(a))                                \
  X(scale, a * t)                                        \
  X(add_scalar, a + t)                                   \
  X(relu_grad, b > T(0) ? a : T(0))                      \
  X(gelu_grad, a * (NormalCdf(b) + b * NormalDensity(b))) \
  X(gelu_tanh_grad, GeluTanhGrad(a, b))                  \
  X(quick_gelu_grad, QuickGeluGrad(a, b))                \
  X(silu_grad, SiluGrad(a, b))                           \
  X(tanh_grad, a * (T(1) - b * b))                       \
  X(sigmoid_grad, a * (b * (T(1) - b)))

enum class PointwiseKind : uint8_t {
#define COLOSSUS_KIND(name, expression) k_##name,
  COLOSSUS_POINTWISE_NUMBERS(COLOSSUS_KIND) COLOSSUS_POINTWISE_FLOATS(COLOSSUS_KIND)
#undef COLOSSUS_KIND
};

template <class T>
HD T Sigmoid(T x) {
  return T(1) / (T(1) + std::exp(-x));
}
template <class T>
HD T NormalCdf(T x) {
  return T(0.5) * (T(1) + std::erf(x * T(0.70710678118654752440)));
}
template <class T>
HD T NormalDensity(T x) {
  return T(0.39894228040143267794) * std::exp(T(-0.5) * (x * x));
}
template <class T>
HD T GeluTanhInner(T x) {
  return std::tanh(T(0.79788456080286535588) * (x + T(0.044715) * (x * x * x)));
}
template <class T>
HD T GeluTanhGrad(T dy, T x) {
  const T inner = GeluTanhInner(x);
  const T slope = (T(1) - inner * inner) *
                  (T(0.79788456080286535588) * (T(1) + T(3 * 0.044715) * (x * x)));
  return dy * (T(0.5) * (T(1) + inner + x * slope));
}
template <class T>
HD T QuickGeluGrad(T dy, T x) {
  const T s = Sigmoid(T(1.702) * x);
  return dy * (s * (T(1) + (T(1.702) * x) * (T(1) - s)));
}
template <class T>
HD T SiluGrad(T dy, T x) {
  const T s = Sigmoid(x);
  return dy * (s * (T(1) + x * (T(1) - s)));
}

// T: float for small floats, double for f64, int64_t for integers and bools.
template <class T>
HD T ApplyPointwise(PointwiseKind kind, T a, T b, T c, T t) {
  switch (kind) {
#define COLOSSUS_CASE(name, expression) \
  case PointwiseKind::k_##name: return expression;
    COLOSSUS_POINTWISE_NUMBERS(COLOSSUS_CASE)
    default: break;
  }
  if constexpr (!std::is_same_v<T, int64_t>) {
    switch (kind) {
      COLOSSUS_POINTWISE_FLOATS(COLOSSUS_CASE)
      default: break;
    }
  }
#undef COLOSSUS_CASE
  return a;
}

template <class T>
struct Pointwise {
  PointwiseKind kind = PointwiseKind::k_add;
  int arity = 1;
  Source x[3];
  Target y;
  T attribute = 0;
  bool dense = true;      // all operands have the result's dims
  StridedIndex<3> index;  // else the operands' offsets

  HD void operator()(int64_t i) const {
    int64_t at[3] = {i, i, i};
    if (!dense) index.Offsets(i, at);
    T value[3] = {};
    for (int k = 0; k < 3; ++k) {
      if (k < arity) value[k] = LoadAs<T>(x[k].dtype, x[k].data, at[k]);
    }
    StoreAs<T>(y.dtype, y.data, i,
               ApplyPointwise<T>(kind, value[0], value[1], value[2], attribute));
  }
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_FUNCTORS_POINTWISE_H_
