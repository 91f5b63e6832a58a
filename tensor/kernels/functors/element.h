// Elements of tensors whose dtype is known only at run time, on the host and on a GPU alike.
//
// Purpose: functors read any dtype as the type they compute in and round once when they store. The
// switch is the same for all threads of a launch, so it costs little beside the memory access.
// Thread-safety: pure functions. Ownership: none. T is float, double or int64_t.
//
//   const float x = LoadAs<float>(dtype, data, i);
//   StoreAs<float>(dtype, data, i, 2 * x);
#ifndef COLOSSUS_TENSOR_KERNELS_FUNCTORS_ELEMENT_H_
#define COLOSSUS_TENSOR_KERNELS_FUNCTORS_ELEMENT_H_

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/dtype.h"
#include "base/host_device.h"

namespace colossus {

// Element i. i64 as float or double rounds to nearest.
template <class T>
HD T LoadAs(DType dtype, const void* data, int64_t i) {
  switch (dtype) {
    case DType::kF64: return static_cast<T>(static_cast<const double*>(data)[i]);
    case DType::kF32: return static_cast<T>(static_cast<const float*>(data)[i]);
    case DType::kBF16: return static_cast<T>(static_cast<const BF16*>(data)[i].F());
    case DType::kF16: return static_cast<T>(static_cast<const F16*>(data)[i].F());
    case DType::kI64: return static_cast<T>(static_cast<const int64_t*>(data)[i]);
    case DType::kI32: return static_cast<T>(static_cast<const int32_t*>(data)[i]);
    case DType::kU8: return static_cast<T>(static_cast<const uint8_t*>(data)[i]);
    case DType::kBool: return static_cast<T>(static_cast<const uint8_t*>(data)[i] != 0 ? 1 : 0);
  }
  return T(0);
}

// x as a float for a second rounding to fewer bits that must give what one rounding of x would:
// cut off towards zero, and odd where anything was cut off.
HD float RoundToOdd(double x) {
  const float f = static_cast<float>(x);
  if (static_cast<double>(f) == x || x != x) return f;
  uint32_t bits = std::bit_cast<uint32_t>(f);
  const double magnitude = x < 0 ? -x : x;
  if (static_cast<double>(f < 0 ? -f : f) > magnitude) --bits;
  return std::bit_cast<float>(bits | 1u);
}

// The integer in [lowest, highest] next to the value without its fraction; NaN gives 0.
template <class T>
HD int64_t ClampedInteger(T value, int64_t lowest, int64_t highest) {
  if constexpr (std::is_same_v<T, int64_t>) {
    return value < lowest ? lowest : value > highest ? highest : value;
  } else {
    if (value != value) return 0;
    const double wide = value;
    if (wide >= static_cast<double>(highest)) return highest;
    if (wide <= static_cast<double>(lowest)) return lowest;
    return static_cast<int64_t>(wide);
  }
}

// Floats: nearest, ties to even. Integers from floats: without the fraction, the nearest end when
// outside. i32 from i64: the low bits. bool: value != 0.
template <class T>
HD void StoreAs(DType dtype, void* data, int64_t i, T value) {
  constexpr bool kWide = !std::is_same_v<T, float>;
  switch (dtype) {
    case DType::kF64: static_cast<double*>(data)[i] = static_cast<double>(value); return;
    case DType::kF32: static_cast<float*>(data)[i] = static_cast<float>(value); return;
    case DType::kBF16:
      if constexpr (kWide) static_cast<BF16*>(data)[i] = BF16::From(RoundToOdd(value));
      else static_cast<BF16*>(data)[i] = BF16::From(value);
      return;
    case DType::kF16:
      if constexpr (kWide) static_cast<F16*>(data)[i] = F16::From(RoundToOdd(value));
      else static_cast<F16*>(data)[i] = F16::From(value);
      return;
    case DType::kI64:
      static_cast<int64_t*>(data)[i] = ClampedInteger<T>(value, INT64_MIN, INT64_MAX);
      return;
    case DType::kI32:
      if constexpr (std::is_same_v<T, int64_t>) {
        static_cast<int32_t*>(data)[i] = static_cast<int32_t>(value);
      } else {
        static_cast<int32_t*>(data)[i] =
            static_cast<int32_t>(ClampedInteger<T>(value, INT32_MIN, INT32_MAX));
      }
      return;
    case DType::kU8:
      static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(ClampedInteger<T>(value, 0, 255));
      return;
    case DType::kBool: static_cast<uint8_t*>(data)[i] = value != T(0) ? 1 : 0; return;
  }
}

// A tensor's memory with its dtype: what functors hold. Null data: absent.
struct Source {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  HD bool present() const { return data != nullptr; }
  HD float F(int64_t i) const { return LoadAs<float>(dtype, data, i); }
  HD int64_t I(int64_t i) const { return LoadAs<int64_t>(dtype, data, i); }
};
struct Target {
  void* data = nullptr;
  DType dtype = DType::kF32;
  HD bool present() const { return data != nullptr; }
  HD void Set(int64_t i, float value) const { StoreAs<float>(dtype, data, i, value); }
  HD float F(int64_t i) const { return LoadAs<float>(dtype, data, i); }
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_FUNCTORS_ELEMENT_H_
