// HostTensor: a typed block of host memory.
//
// Purpose: values going into and out of a run, test data, file contents. Not used inside a
// Program, whose buffers lie in arenas.
// Thread-safety: as a std::vector. Ownership: owns its bytes (64-byte aligned), zero when made.
//
//   HostTensor t = HostTensor::Of<float>({2, 2}, {1, 2, 3, 4});
//   t.Get(3);                        // 4.0
//   t.data<float>()[0] = 5;
#ifndef COLOSSUS_TENSOR_HOST_TENSOR_H_
#define COLOSSUS_TENSOR_HOST_TENSOR_H_

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "base/check.h"
#include "base/dtype.h"
#include "tensor/graph/types.h"

namespace colossus {

class HostTensor {
 public:
  HostTensor() : HostTensor(Type{}) {}
  explicit HostTensor(Type type);
  HostTensor(const HostTensor& other);
  HostTensor& operator=(const HostTensor& other);
  HostTensor(HostTensor&&) = default;
  HostTensor& operator=(HostTensor&&) = default;

  // REQUIRES: values.size() == ElementCount(dims).
  template <typename T>
  static HostTensor Of(Dims dims, const std::vector<T>& values) {
    HostTensor tensor(Type{DTypeOf<T>(), std::move(dims)});
    CHECK_EQ(static_cast<int64_t>(values.size()), tensor.type().elements());
    std::copy(values.begin(), values.end(), tensor.data<T>().begin());
    return tensor;
  }

  const Type& type() const { return type_; }
  void* raw() { return data_.get(); }
  const void* raw() const { return data_.get(); }

  // REQUIRES: T is the element type.
  template <typename T>
  absl::Span<T> data() {
    CHECK(DTypeOf<T>() == type_.dtype) << ToString(type_);
    return {static_cast<T*>(raw()), static_cast<size_t>(type_.elements())};
  }
  template <typename T>
  absl::Span<const T> data() const {
    CHECK(DTypeOf<T>() == type_.dtype) << ToString(type_);
    return {static_cast<const T*>(raw()), static_cast<size_t>(type_.elements())};
  }

  // Element i in row-major order, converted.
  double Get(int64_t i) const { return LoadAsDouble(type_.dtype, raw(), i); }
  void Set(int64_t i, double value) { StoreFromDouble(type_.dtype, raw(), i, value); }
  std::vector<double> ToDoubles() const;

  // The same values as `dtype`, each as Set(i, Get(i)) would convert it (i64 beyond 2^53 rounds),
  // but fast: uses the rank's threads.
  HostTensor Converted(DType dtype) const;

  // Same type and same bytes.
  friend bool operator==(const HostTensor& a, const HostTensor& b);

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  Type type_;
  std::unique_ptr<void, Free> data_;
};

// By value name.
using HostTensors = std::map<std::string, HostTensor>;

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_HOST_TENSOR_H_
