#include "shardformer/initialize.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "base/check.h"
#include "base/parallel_for.h"
#include "base/random.h"

namespace colossus {
namespace {

// The unit of the split over threads, and how many numbers are drawn at a time.
constexpr int64_t kGrain = 4096;

// values[begin, end) = deviation times standard normals.
template <class T>
void SetNormals(const Initializer& init, RandomKey key, uint64_t site, int64_t begin, int64_t end,
                T* values) {
  std::vector<double> normals(kGrain);
  for (int64_t first = begin; first < end; first += kGrain) {
    const int64_t count = std::min(kGrain, end - first);
    Normals(key, site, static_cast<uint64_t>(first),
            absl::MakeSpan(normals.data(), static_cast<size_t>(count)));
    for (int64_t i = 0; i < count; ++i) {
      values[first + i] = FromDouble<T>(init.value * normals[static_cast<size_t>(i)]);
    }
  }
}

}  // namespace

HostTensor InitialValue(const StateInfo& parameter, DType dtype, uint64_t seed) {
  CHECK(parameter.init.kind != Initializer::Kind::kNone) << parameter.name;
  HostTensor values(Type{dtype, parameter.global_dims});
  const Initializer init = parameter.init;
  const RandomKey key{seed, 0};
  const uint64_t site = SiteId(parameter.name);
  DispatchDType(dtype, [&](auto sample) {
    using T = decltype(sample);
    T* const data = static_cast<T*>(values.raw());
    ParallelFor(values.type().elements(), kGrain, [&](int64_t begin, int64_t end) {
      if (init.kind == Initializer::Kind::kConstant) {
        std::fill(data + begin, data + end, FromDouble<T>(init.value));
      } else {
        SetNormals(init, key, site, begin, end, data);
      }
    });
  });
  return values;
}

}  // namespace colossus
