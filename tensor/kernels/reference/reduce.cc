#include <limits>
#include <utility>

#include "tensor/kernels/reference/reference.h"

namespace colossus {
namespace {

// y = fold of `step` from `start` over the elements that belong to each result.
template <class S, class Step>
void Fold(const ReferenceCall& call, double start, Step step) {
  TensorView x = call.x(0);
  Dims outer = x.dims(), inner(x.dims().size(), 1);
  for (int64_t d : call.attributes().IntList("dims")) std::swap(outer[d], inner[d]);
  int64_t at = 0;
  ForEachIndex(outer, [&](const Dims& first) {
    S value(start);
    ForEachIndex(inner, [&](const Dims& rest) {
      Dims index = first;
      for (size_t d = 0; d < index.size(); ++d) index[d] += rest[d];
      value = step(value, S(x.Get(OffsetOf(index, x.dims()))));
    });
    call.y(0).Set(at++, ToDouble(value));
  });
}

}  // namespace

template <class S>
void ReduceSumReference(const ReferenceCall& call) {
  Fold<S>(call, 0, [](S a, S b) { return a + b; });
}
COLOSSUS_INSTANTIATE_REFERENCE(ReduceSumReference)

template <class S>
void ReduceMaxReference(const ReferenceCall& call) {
  Fold<S>(call, -std::numeric_limits<double>::infinity(), [](S a, S b) { return Max(a, b); });
}
COLOSSUS_INSTANTIATE_REFERENCE(ReduceMaxReference)

}  // namespace colossus
