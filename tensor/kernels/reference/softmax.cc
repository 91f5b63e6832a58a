#include <limits>
#include <vector>

#include "tensor/kernels/reference/reference.h"

namespace colossus {

template <class S>
void SoftmaxReference(const ReferenceCall& call) {
  TensorView x = call.x(0);
  int64_t n = x.dims().back();
  for (int64_t row = 0; row + n <= x.elements() && n > 0; row += n) {
    S top(-std::numeric_limits<double>::infinity()), sum(0);
    for (int64_t i = 0; i < n; ++i) top = Max(top, S(x.Get(row + i)));
    std::vector<S> e(n);
    for (int64_t i = 0; i < n; ++i) sum += e[i] = Exp(S(x.Get(row + i)) - top);
    for (int64_t i = 0; i < n; ++i) call.y(0).Set(row + i, ToDouble(e[i] / sum));
  }
}
COLOSSUS_INSTANTIATE_REFERENCE(SoftmaxReference)

template <class S>
void SoftmaxGradReference(const ReferenceCall& call) {
  TensorView dy = call.x(0), y = call.x(1);
  int64_t n = y.dims().back();
  for (int64_t row = 0; row + n <= y.elements() && n > 0; row += n) {
    S sum(0);
    for (int64_t i = 0; i < n; ++i) sum += S(dy.Get(row + i)) * S(y.Get(row + i));
    for (int64_t i = 0; i < n; ++i) {
      call.y(0).Set(row + i, ToDouble(S(y.Get(row + i)) * (S(dy.Get(row + i)) - sum)));
    }
  }
}
COLOSSUS_INSTANTIATE_REFERENCE(SoftmaxGradReference)

}  // namespace colossus
