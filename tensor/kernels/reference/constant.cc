#include "tensor/kernels/reference/reference.h"

namespace colossus {

template <class S>
void ConstantReference(const ReferenceCall& call) {
  MutableTensorView y = call.y(0);
  for (int64_t i = 0; i < y.elements(); ++i) {
    if (IsFloat(y.type().dtype)) {
      const Floats& values = call.attributes().FloatList("floats");
      y.Set(i, values[values.size() == 1 ? 0 : i]);
    } else {
      const Ints& values = call.attributes().IntList("ints");
      y.SetInt(i, values[values.size() == 1 ? 0 : i]);
    }
  }
}
COLOSSUS_INSTANTIATE_REFERENCE(ConstantReference)

template <class S>
void IotaReference(const ReferenceCall& call) {
  MutableTensorView y = call.y(0);
  int64_t dim = call.attributes().Int("dim"), start = call.attributes().IntOr("start", 0);
  int64_t at = 0;
  ForEachIndex(y.dims(), [&](const Dims& index) { y.SetInt(at++, start + index[dim]); });
}
COLOSSUS_INSTANTIATE_REFERENCE(IotaReference)

}  // namespace colossus
