// Counted: a double that counts its operations.
//
// Purpose: tests run a reference kernel on Counted and compare the count with Op::CostOf().
// Each + - * / max min sqrt exp log tanh erf sin cos counts one; comparisons, negation, conversions
// and memory accesses count nothing.
// Thread-safety: the counter is per thread.
//
//   CountedOperations() = 0;
//   Counted y = Counted(2) * Counted(3) + Counted(1);   // CountedOperations() == 2
#ifndef COLOSSUS_TENSOR_KERNELS_REFERENCE_COUNTED_H_
#define COLOSSUS_TENSOR_KERNELS_REFERENCE_COUNTED_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace colossus {

inline int64_t& CountedOperations() {
  thread_local int64_t count = 0;
  return count;
}

struct Counted {
  double value = 0;
  Counted() = default;
  explicit Counted(double v) : value(v) {}

  static Counted Count(double v) {
    ++CountedOperations();
    return Counted(v);
  }
  friend Counted operator+(Counted a, Counted b) { return Counted::Count(a.value + b.value); }
  friend Counted operator-(Counted a, Counted b) { return Counted::Count(a.value - b.value); }
  friend Counted operator*(Counted a, Counted b) { return Counted::Count(a.value * b.value); }
  friend Counted operator/(Counted a, Counted b) { return Counted::Count(a.value / b.value); }
  friend Counted operator-(Counted a) { return Counted(-a.value); }
  Counted& operator+=(Counted b) { return *this = *this + b; }
  Counted& operator-=(Counted b) { return *this = *this - b; }
  Counted& operator*=(Counted b) { return *this = *this * b; }
  friend bool operator<(Counted a, Counted b) { return a.value < b.value; }
  friend bool operator>(Counted a, Counted b) { return a.value > b.value; }
  friend bool operator<=(Counted a, Counted b) { return a.value <= b.value; }
  friend bool operator>=(Counted a, Counted b) { return a.value >= b.value; }
  friend bool operator==(Counted a, Counted b) { return a.value == b.value; }
};

inline double ToDouble(double v) { return v; }
inline double ToDouble(Counted v) { return v.value; }

// The functions a reference kernel may call on S.
#define COLOSSUS_COUNTED_FUNCTION(Name, expression)           \
  inline double Name(double v) { return expression; }        \
  inline Counted Name(Counted c) {                            \
    double v = c.value;                                       \
    ++CountedOperations();                                    \
    return Counted(expression);                               \
  }
COLOSSUS_COUNTED_FUNCTION(Sqrt, std::sqrt(v))
COLOSSUS_COUNTED_FUNCTION(Exp, std::exp(v))
COLOSSUS_COUNTED_FUNCTION(Log, std::log(v))
COLOSSUS_COUNTED_FUNCTION(Tanh, std::tanh(v))
COLOSSUS_COUNTED_FUNCTION(Erf, std::erf(v))
COLOSSUS_COUNTED_FUNCTION(Sin, std::sin(v))
COLOSSUS_COUNTED_FUNCTION(Cos, std::cos(v))
COLOSSUS_COUNTED_FUNCTION(Abs, std::fabs(v))
#undef COLOSSUS_COUNTED_FUNCTION

inline double Max(double a, double b) { return std::max(a, b); }
inline double Min(double a, double b) { return std::min(a, b); }
inline Counted Max(Counted a, Counted b) {
  ++CountedOperations();
  return Counted(std::max(a.value, b.value));
}
inline Counted Min(Counted a, Counted b) {
  ++CountedOperations();
  return Counted(std::min(a.value, b.value));
}

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_REFERENCE_COUNTED_H_
