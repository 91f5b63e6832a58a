#include "shardformer/initialize.h"

#include "base/check.h"
#include "base/parallel_for.h"
#include "base/random.h"

namespace colossus {

HostTensor InitialValue(const StateInfo& parameter, DType dtype, uint64_t seed) {
  CHECK(parameter.init.kind != Initializer::Kind::kNone) << parameter.name;
  HostTensor values(Type{dtype, parameter.global_dims});
  const Initializer init = parameter.init;
  const RandomKey key{seed, 0};
  const uint64_t site = SiteId(parameter.name);
  ParallelFor(values.type().elements(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const bool constant = init.kind == Initializer::Kind::kConstant;
      values.Set(i, constant ? init.value
                             : init.value * Normal(key, site, static_cast<uint64_t>(i)));
    }
  });
  return values;
}

}  // namespace colossus
