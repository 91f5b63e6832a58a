// Element types of tensors, the 16-bit float types, and access to an element whose type is known
// only at run time.
//
// Thread-safe: values and pure functions only. Nothing is owned.
//
//   BF16 b = BF16::From(1.1f);              // nearest, ties to even
//   float f = b.F();                        // exact
//   DispatchDType(dtype, [&](auto zero) { Add(static_cast<decltype(zero)*>(dst), ...); });
#ifndef COLOSSUS_BASE_DTYPE_H_
#define COLOSSUS_BASE_DTYPE_H_

#include <bit>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/host_device.h"

namespace colossus {

enum class DType : uint8_t { kF64, kF32, kBF16, kF16, kI64, kI32, kU8, kBool };

// Every DType once, in the order of the enum: for tables and loops in tests.
inline constexpr DType kAllDTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                                       DType::kI64, DType::kI32, DType::kU8,   DType::kBool};

// Bytes of one element: 8, 4, 2 or 1.
int64_t SizeOf(DType dtype);

// "f64", "f32", "bf16", "f16", "i64", "i32", "u8" or "bool"; lives forever.
absl::string_view Name(DType dtype);

// The inverse of Name; InvalidArgument, listing the names, for anything else.
absl::StatusOr<DType> ParseDType(absl::string_view name);

// True for f64, f32, bf16 and f16.
bool IsFloat(DType dtype);

// bfloat16: the upper half of a float. Has no arithmetic and no comparison: those are done in
// float by whoever needs them, so that every rounding is visible in the code.
struct BF16 {
  uint16_t bits = 0;

  // Rounds to nearest, ties to even; beyond the largest value to infinity. NaN stays NaN, made
  // quiet, with its sign and the upper payload bits. Branch-free, so loops over it vectorize.
  HD static constexpr BF16 From(float f) {
    const uint32_t u = std::bit_cast<uint32_t>(f);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const uint32_t quiet = (u >> 16) | 0x40u;
    return BF16{static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded)};
  }

  // Exact.
  HD constexpr float F() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

// IEEE binary16; what is said of BF16 holds here. Subnormals are kept in both directions.
struct F16 {
  uint16_t bits = 0;

  HD static constexpr F16 From(float f) {
    const uint32_t u = std::bit_cast<uint32_t>(f);
    const uint32_t sign = (u >> 16) & 0x8000u;
    const uint32_t a = u & 0x7fffffffu;  // |f|
    // Normal results: move the exponent bias from 127 to 15 and round 13 bits away; a carry out of
    // the mantissa moves on to the next exponent, and from the largest one to infinity.
    const uint32_t normal = (a + 0xfffu + ((a >> 13) & 1u) - (112u << 23)) >> 13;
    // Below 2^-14 the unit is 2^-24, which is the unit of floats in [0.5, 1): the addition rounds.
    const uint32_t subnormal =
        std::bit_cast<uint32_t>(std::bit_cast<float>(a) + 0.5f) - (126u << 23);
    const uint32_t quiet = 0x7e00u | ((a >> 13) & 0x3ffu);
    const uint32_t finite = a < (113u << 23) ? subnormal : normal;
    const uint32_t capped = a >= (143u << 23) ? 0x7c00u : finite;  // from 65536: infinity
    return F16{static_cast<uint16_t>(sign | (a > 0x7f800000u ? quiet : capped))};
  }

  HD constexpr float F() const {
    const uint32_t sign = (bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1fu;
    const uint32_t mantissa = bits & 0x3ffu;
    const uint32_t subnormal = std::bit_cast<uint32_t>(static_cast<float>(mantissa) * 0x1p-24f);
    const uint32_t normal = ((exponent + 112u) << 23) | (mantissa << 13);
    const uint32_t special = 0x7f800000u | (mantissa << 13);
    const uint32_t magnitude = exponent == 0 ? subnormal : exponent == 31u ? special : normal;
    return std::bit_cast<float>(sign | magnitude);
  }
};

// The DType whose elements are Ts; does not compile for other types.
template <class T>
constexpr DType DTypeOf() = delete;
template <> constexpr DType DTypeOf<double>() { return DType::kF64; }
template <> constexpr DType DTypeOf<float>() { return DType::kF32; }
template <> constexpr DType DTypeOf<BF16>() { return DType::kBF16; }
template <> constexpr DType DTypeOf<F16>() { return DType::kF16; }
template <> constexpr DType DTypeOf<int64_t>() { return DType::kI64; }
template <> constexpr DType DTypeOf<int32_t>() { return DType::kI32; }
template <> constexpr DType DTypeOf<uint8_t>() { return DType::kU8; }
template <> constexpr DType DTypeOf<bool>() { return DType::kBool; }

namespace internal {
[[noreturn]] void DieOfBadDType(DType dtype);
}  // namespace internal

// Returns fn(T{}) for the T with DTypeOf<T>() == dtype. fn returns the same type for every T.
template <class Fn>
auto DispatchDType(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::kF64: return fn(double{});
    case DType::kF32: return fn(float{});
    case DType::kBF16: return fn(BF16{});
    case DType::kF16: return fn(F16{});
    case DType::kI64: return fn(int64_t{});
    case DType::kI32: return fn(int32_t{});
    case DType::kU8: return fn(uint8_t{});
    case DType::kBool: return fn(bool{});
  }
  internal::DieOfBadDType(dtype);
}

// The value as a double: exact but for i64 beyond 2^53, which rounds to nearest.
double ToDouble(double value);
double ToDouble(float value);
double ToDouble(BF16 value);
double ToDouble(F16 value);
double ToDouble(int64_t value);
double ToDouble(int32_t value);
double ToDouble(uint8_t value);
double ToDouble(bool value);

// The T for a double. Floats: rounded once, to nearest, ties to even (never by way of float).
// Integers: the fraction is cut off, values out of range go to the nearest end, NaN to 0.
// bool: value != 0. T is one of the types of DTypeOf.
template <class T>
T FromDouble(double value);

// Element i of an array of `dtype` at `data`, converted by ToDouble / FromDouble. `data` needs no
// alignment. A stored bool is true when its byte is not 0. Slow: for references, text and tests.
double LoadAsDouble(DType dtype, const void* data, int64_t i);
void StoreFromDouble(DType dtype, void* data, int64_t i, double value);

}  // namespace colossus

#endif  // COLOSSUS_BASE_DTYPE_H_
