#include <cstring>

#include "tensor/kernels/reference/reference.h"

namespace colossus {
namespace {

// Moves one element of any type, bit for bit.
void Copy(const TensorView& x, int64_t from, const MutableTensorView& y, int64_t to) {
  size_t size = static_cast<size_t>(SizeOf(x.type().dtype));
  std::memcpy(static_cast<char*>(y.raw()) + to * size,
              static_cast<const char*>(x.raw()) + from * size, size);
}

}  // namespace

template <class S>
void ReshapeReference(const ReferenceCall& call) {
  if (call.x(0).elements() == 0) return;
  std::memmove(call.y(0).raw(), call.x(0).raw(), static_cast<size_t>(call.x(0).type().bytes()));
}
COLOSSUS_INSTANTIATE_REFERENCE(ReshapeReference)

template <class S>
void TransposeReference(const ReferenceCall& call) {
  TensorView x = call.x(0);
  const Ints& perm = call.attributes().IntList("perm");
  int64_t at = 0;
  ForEachIndex(call.y(0).dims(), [&](const Dims& index) {
    Dims source(index.size());
    for (size_t d = 0; d < perm.size(); ++d) source[perm[d]] = index[d];
    Copy(x, OffsetOf(source, x.dims()), call.y(0), at++);
  });
}
COLOSSUS_INSTANTIATE_REFERENCE(TransposeReference)

template <class S>
void SliceReference(const ReferenceCall& call) {
  TensorView x = call.x(0);
  const Ints& starts = call.attributes().IntList("starts");
  int64_t at = 0;
  ForEachIndex(call.y(0).dims(), [&](const Dims& index) {
    Dims source = index;
    for (size_t d = 0; d < starts.size(); ++d) source[d] += starts[d];
    Copy(x, OffsetOf(source, x.dims()), call.y(0), at++);
  });
}
COLOSSUS_INSTANTIATE_REFERENCE(SliceReference)

template <class S>
void PadReference(const ReferenceCall& call) {
  TensorView x = call.x(0);
  MutableTensorView y = call.y(0);
  for (int64_t i = 0; i < y.elements(); ++i) y.Set(i, call.attributes().Float("value"));
  const Ints& low = call.attributes().IntList("low");
  int64_t at = 0;
  ForEachIndex(x.dims(), [&](const Dims& index) {
    Dims target = index;
    for (size_t d = 0; d < low.size(); ++d) target[d] += low[d];
    Copy(x, at++, y, OffsetOf(target, y.dims()));
  });
}
COLOSSUS_INSTANTIATE_REFERENCE(PadReference)

template <class S>
void ConcatReference(const ReferenceCall& call) {
  int64_t dim = call.attributes().Int("dim"), before = 0;
  for (int i = 0; i < call.x_count(); ++i) {
    TensorView x = call.x(i);
    int64_t at = 0;
    ForEachIndex(x.dims(), [&](const Dims& index) {
      Dims target = index;
      target[dim] += before;
      Copy(x, at++, call.y(0), OffsetOf(target, call.y(0).dims()));
    });
    before += x.dim(static_cast<int>(dim));
  }
}
COLOSSUS_INSTANTIATE_REFERENCE(ConcatReference)

template <class S>
void BroadcastReference(const ReferenceCall& call) {
  int64_t at = 0;
  ForEachIndex(call.y(0).dims(), [&](const Dims& index) {
    Copy(call.x(0), BroadcastOffset(index, call.x(0).dims()), call.y(0), at++);
  });
}
COLOSSUS_INSTANTIATE_REFERENCE(BroadcastReference)

}  // namespace colossus
