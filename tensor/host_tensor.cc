#include "tensor/host_tensor.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/parallel_for.h"

namespace colossus {
namespace {

constexpr size_t kAlignment = 64;

void* Allocate(int64_t bytes) {
  size_t rounded = (static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  rounded = std::max(rounded, kAlignment);
  void* p = std::aligned_alloc(kAlignment, rounded);
  CHECK(p != nullptr) << "out of host memory for " << bytes << " bytes";
  std::memset(p, 0, rounded);
  return p;
}

// Elements a thread takes at a time.
constexpr int64_t kConvertGrain = 1 << 16;

float ToFloat(float value) { return value; }
float ToFloat(BF16 value) { return value.F(); }
float ToFloat(F16 value) { return value.F(); }

template <class T>
constexpr bool kFloatOrNarrower =
    std::is_same_v<T, float> || std::is_same_v<T, BF16> || std::is_same_v<T, F16>;

// By way of float where that is exact and so gives the bits of the way through double.
template <class Dst, class Src>
Dst ConvertElement(Src value) {
  if constexpr (kFloatOrNarrower<Src> && kFloatOrNarrower<Dst>) {
    if constexpr (std::is_same_v<Dst, float>) {
      return ToFloat(value);
    } else {
      return Dst::From(ToFloat(value));
    }
  } else {
    return FromDouble<Dst>(ToDouble(value));
  }
}

// A bool is read as its byte: memory that came from a file holds any byte.
template <class Dst, class Src>
void ConvertElements(const Src* src, Dst* dst, int64_t n) {
  ParallelFor(n, kConvertGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if constexpr (std::is_same_v<Src, bool>) {
        dst[i] = ConvertElement<Dst>(reinterpret_cast<const uint8_t*>(src)[i] != 0);
      } else {
        dst[i] = ConvertElement<Dst>(src[i]);
      }
    }
  });
}

}  // namespace

HostTensor::HostTensor(Type type) : type_(std::move(type)), data_(Allocate(type_.bytes())) {}

HostTensor::HostTensor(const HostTensor& other) : HostTensor(other.type_) {
  std::memcpy(raw(), other.raw(), static_cast<size_t>(type_.bytes()));
}

HostTensor& HostTensor::operator=(const HostTensor& other) {
  if (this != &other) *this = HostTensor(other);
  return *this;
}

std::vector<double> HostTensor::ToDoubles() const {
  std::vector<double> values(static_cast<size_t>(type_.elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = Get(static_cast<int64_t>(i));
  return values;
}

HostTensor HostTensor::Converted(DType dtype) const {
  if (dtype == type_.dtype) return *this;
  HostTensor converted(Type{dtype, type_.dims});
  DispatchDType(type_.dtype, [&](auto src) {
    DispatchDType(dtype, [&](auto dst) {
      ConvertElements(static_cast<const decltype(src)*>(raw()),
                      static_cast<decltype(dst)*>(converted.raw()), type_.elements());
    });
  });
  return converted;
}

bool operator==(const HostTensor& a, const HostTensor& b) {
  return a.type_ == b.type_ &&
         std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.type_.bytes())) == 0;
}

}  // namespace colossus
