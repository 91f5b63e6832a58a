#include "base/dtype.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace colossus {
namespace {

struct DTypeInfo {
  DType dtype;
  const char* name;
  int64_t size;
  bool is_float;
};

constexpr DTypeInfo kInfos[] = {
    {DType::kF64, "f64", 8, true},   {DType::kF32, "f32", 4, true},
    {DType::kBF16, "bf16", 2, true}, {DType::kF16, "f16", 2, true},
    {DType::kI64, "i64", 8, false},  {DType::kI32, "i32", 4, false},
    {DType::kU8, "u8", 1, false},    {DType::kBool, "bool", 1, false},
};

const DTypeInfo& Info(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  if (index >= std::size(kInfos)) internal::DieOfBadDType(dtype);
  return kInfos[index];
}

// A float that rounds on to any format of at most 22 mantissa bits as the double itself would:
// inexact results get an odd last bit, so they are never mistaken for a tie.
float RoundToOdd(double value) {
  const float nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value) return nearest;
  const uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if ((bits & 1u) != 0) return nearest;
  const bool away = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
  return std::bit_cast<float>(away ? bits - 1 : bits + 1);
}

template <class T>
T Saturate(double value) {
  // Both ends as doubles: the lower one and the first value above the upper one are exact.
  constexpr double kLow = static_cast<double>(std::numeric_limits<T>::min());
  constexpr double kBeyond = 2.0 * (std::numeric_limits<T>::max() / 2 + 1);
  if (std::isnan(value)) return 0;
  if (value <= kLow) return std::numeric_limits<T>::min();
  if (value >= kBeyond) return std::numeric_limits<T>::max();
  return static_cast<T>(value);
}

}  // namespace

namespace internal {
void DieOfBadDType(DType dtype) {
  CHECK(false) << "not a DType: " << static_cast<int>(dtype);
  __builtin_unreachable();
}
}  // namespace internal

int64_t SizeOf(DType dtype) { return Info(dtype).size; }
absl::string_view Name(DType dtype) { return Info(dtype).name; }
bool IsFloat(DType dtype) { return Info(dtype).is_float; }

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  for (const DTypeInfo& info : kInfos) {
    if (name == info.name) return info.dtype;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown dtype \"", name, "\": one of f64, f32, bf16, f16, i64, i32, u8, bool is needed"));
}

double ToDouble(double value) { return value; }
double ToDouble(float value) { return value; }
double ToDouble(BF16 value) { return value.F(); }
double ToDouble(F16 value) { return value.F(); }
double ToDouble(int64_t value) { return static_cast<double>(value); }
double ToDouble(int32_t value) { return value; }
double ToDouble(uint8_t value) { return value; }
double ToDouble(bool value) { return value ? 1.0 : 0.0; }

template <> double FromDouble<double>(double value) { return value; }
template <> float FromDouble<float>(double value) { return static_cast<float>(value); }
template <> BF16 FromDouble<BF16>(double value) { return BF16::From(RoundToOdd(value)); }
template <> F16 FromDouble<F16>(double value) { return F16::From(RoundToOdd(value)); }
template <> int64_t FromDouble<int64_t>(double value) { return Saturate<int64_t>(value); }
template <> int32_t FromDouble<int32_t>(double value) { return Saturate<int32_t>(value); }
template <> uint8_t FromDouble<uint8_t>(double value) { return Saturate<uint8_t>(value); }
template <> bool FromDouble<bool>(double value) { return value != 0; }

double LoadAsDouble(DType dtype, const void* data, int64_t i) {
  const char* src = static_cast<const char*>(data) + i * SizeOf(dtype);
  return DispatchDType(dtype, [src](auto zero) {
    // A bool is read as its byte: files hold any byte, a C++ bool must be 0 or 1.
    std::conditional_t<std::is_same_v<decltype(zero), bool>, uint8_t, decltype(zero)> value;
    std::memcpy(&value, src, sizeof(value));
    if constexpr (std::is_same_v<decltype(zero), bool>) return ToDouble(value != 0);
    return ToDouble(value);
  });
}

void StoreFromDouble(DType dtype, void* data, int64_t i, double value) {
  char* dst = static_cast<char*>(data) + i * SizeOf(dtype);
  DispatchDType(dtype, [dst, value](auto zero) {
    const auto element = FromDouble<decltype(zero)>(value);
    std::memcpy(dst, &element, sizeof(element));
  });
}

}  // namespace colossus
