#include <vector>

#include "tensor/kernels/reference/reference.h"

namespace colossus {

template <class S>
void TopkReference(const ReferenceCall& call) {
  TensorView scores = call.x(0);
  int64_t e = scores.dim(1), k = call.y(0).dim(1);
  for (int64_t n = 0; n < scores.dim(0); ++n) {
    std::vector<bool> taken(e);
    for (int64_t slot = 0; slot < k; ++slot) {
      int64_t best = -1;
      for (int64_t j = 0; j < e; ++j) {
        if (!taken[j] && (best < 0 || scores.Get(n * e + j) > scores.Get(n * e + best))) best = j;
      }
      taken[best] = true;
      call.y(0).Set(n * k + slot, scores.Get(n * e + best));
      call.y(1).SetInt(n * k + slot, best);
    }
  }
}
COLOSSUS_INSTANTIATE_REFERENCE(TopkReference)

template <class S>
void TopkGradReference(const ReferenceCall& call) {
  TensorView dvalues = call.x(0), indices = call.x(1);
  MutableTensorView dscores = call.y(0);
  int64_t k = dvalues.dim(1), e = dscores.dim(1);
  for (int64_t i = 0; i < dscores.elements(); ++i) dscores.Set(i, 0);
  for (int64_t i = 0; i < dvalues.elements(); ++i) {
    int64_t index = indices.GetInt(i);
    if (index >= 0 && index < e) dscores.Set(i / k * e + index, dvalues.Get(i));
  }
}
COLOSSUS_INSTANTIATE_REFERENCE(TopkGradReference)

}  // namespace colossus
