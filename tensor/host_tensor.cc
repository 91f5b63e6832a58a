#include "tensor/host_tensor.h"

#include <algorithm>
#include <cstring>

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

bool operator==(const HostTensor& a, const HostTensor& b) {
  return a.type_ == b.type_ &&
         std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.type_.bytes())) == 0;
}

}  // namespace colossus
