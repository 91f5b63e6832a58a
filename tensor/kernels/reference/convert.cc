#include <cmath>

#include "tensor/kernels/reference/reference.h"

namespace colossus {

template <class S>
void ConvertReference(const ReferenceCall& call) {
  TensorView x = call.x(0);
  MutableTensorView y = call.y(0);
  bool from_int = !IsFloat(x.type().dtype), to_int = !IsFloat(y.type().dtype);
  for (int64_t i = 0; i < x.elements(); ++i) {
    if (y.type().dtype == DType::kBool) y.Set(i, x.Get(i) != 0 ? 1 : 0);
    else if (from_int && to_int) y.SetInt(i, x.GetInt(i));
    else if (to_int) y.Set(i, std::trunc(x.Get(i)));  // the nearest end when outside
    else y.Set(i, x.Get(i));
  }
}
COLOSSUS_INSTANTIATE_REFERENCE(ConvertReference)

}  // namespace colossus
