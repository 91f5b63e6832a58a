#include "shardformer/initialize.h"

#include <algorithm>

#include "absl/types/span.h"
#include "base/check.h"
#include "base/parallel_for.h"
#include "base/random.h"

namespace colossus {
namespace {

constexpr int64_t kGrain = 4096, kBlock = 1024;  // elements

// Elements [first, first + count) of the parameter; at most kBlock.
template <class Element>
void SetBlock(const Initializer& init, RandomKey key, uint64_t site, int64_t first,
              Element* elements, int64_t count) {
  double numbers[kBlock];
  if (init.kind == Initializer::Kind::kConstant) {
    std::fill_n(numbers, count, 1.0);
  } else {
    Normals(key, site, static_cast<uint64_t>(first),
            absl::MakeSpan(numbers, static_cast<size_t>(count)));
  }
  for (int64_t i = 0; i < count; ++i) elements[i] = FromDouble<Element>(init.value * numbers[i]);
}

}  // namespace

HostTensor InitialValue(const StateInfo& parameter, DType dtype, uint64_t seed) {
  CHECK(parameter.init.kind != Initializer::Kind::kNone) << parameter.name;
  HostTensor values(Type{dtype, parameter.global_dims});
  const RandomKey key{seed, 0};
  const uint64_t site = SiteId(parameter.name);
  DispatchDType(dtype, [&](auto zero) {
    using Element = decltype(zero);
    auto* elements = static_cast<Element*>(values.raw());
    ParallelFor(values.type().elements(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; at += kBlock) {
        SetBlock(parameter.init, key, site, at, elements + at, std::min(kBlock, end - at));
      }
    });
  });
  return values;
}

}  // namespace colossus
