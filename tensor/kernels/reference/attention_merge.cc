#include <limits>

#include "tensor/kernels/reference/reference.h"

namespace colossus {

template <class S>
void AttentionMergeReference(const ReferenceCall& call) {
  const Dims& dims = call.y(0).dims();
  ForEachIndex({dims[0], dims[2], dims[1]}, [&](const Dims& row) {
    const int64_t at = OffsetOf(row, call.y(1).dims());
    S lse_a(call.x(1).Get(at)), lse_b(call.x(3).Get(at)), factor_a(0), factor_b(0);
    S lse = Max(lse_a, lse_b);
    if (ToDouble(lse) != -std::numeric_limits<double>::infinity()) {  // else nobody has a key
      lse = lse + Log(Exp(lse_a - lse) + Exp(lse_b - lse));
      factor_a = Exp(lse_a - lse);
      factor_b = Exp(lse_b - lse);
    }
    call.y(1).Set(at, ToDouble(lse));
    const int64_t first = ((row[0] * dims[1] + row[2]) * dims[2] + row[1]) * dims[3];
    for (int64_t i = first; i < first + dims[3]; ++i) {
      call.y(0).Set(i, ToDouble(S(call.x(0).Get(i)) * factor_a + S(call.x(2).Get(i)) * factor_b));
    }
  });
}
COLOSSUS_INSTANTIATE_REFERENCE(AttentionMergeReference)

}  // namespace colossus
