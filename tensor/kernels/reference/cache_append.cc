#include "tensor/kernels/reference/reference.h"

namespace colossus {

template <class S>
void CacheAppendReference(const ReferenceCall& call) {
  TensorView cache = call.x(0), rows = call.x(1);
  MutableTensorView y = call.y(0);
  bool exact = !IsFloat(cache.type().dtype);
  auto copy = [&](int64_t to, const TensorView& from, int64_t i) {
    if (exact) y.SetInt(to, from.GetInt(i));
    else y.Set(to, from.Get(i));
  };
  for (int64_t i = 0; i < cache.elements(); ++i) copy(i, cache, i);
  int64_t width = cache.dim(2) * cache.dim(3);
  for (int64_t b = 0; b < rows.dim(0); ++b) {
    int64_t length = call.x(2).GetInt(b);
    for (int64_t s = 0; s < rows.dim(1); ++s) {
      if (length + s < 0 || length + s >= cache.dim(1)) continue;
      for (int64_t j = 0; j < width; ++j) {
        copy((b * cache.dim(1) + length + s) * width + j, rows, (b * rows.dim(1) + s) * width + j);
      }
    }
  }
}
COLOSSUS_INSTANTIATE_REFERENCE(CacheAppendReference)

}  // namespace colossus
