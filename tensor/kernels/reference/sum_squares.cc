#include "tensor/ops/sum_squares.h"

#include <algorithm>

#include "tensor/kernels/reference/reference.h"

namespace colossus {

template <class S>
void SumSquaresReference(const ReferenceCall& call) {
  const int first = ContinuesTotal(call.attributes()) ? 1 : 0;
  S total(first == 1 ? call.x(0).Get(0) : 0.0);
  for (int i = first; i < call.x_count(); ++i) {
    TensorView x = call.x(i);
    for (int64_t begin = 0; begin < x.elements(); begin += kSumSquaresBlock) {
      S lanes[kSumSquaresLanes] = {}, block(0);
      int64_t end = std::min(begin + kSumSquaresBlock, x.elements());
      for (int64_t n = begin; n < end; ++n) {
        S value(x.Get(n));
        lanes[n % kSumSquaresLanes] += value * value;
      }
      for (const S& lane : lanes) block += lane;
      total += block;
    }
  }
  call.y(0).Set(0, ToDouble(total));
}
COLOSSUS_INSTANTIATE_REFERENCE(SumSquaresReference)

}  // namespace colossus
