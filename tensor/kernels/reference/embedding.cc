#include <limits>
#include <vector>

#include "tensor/kernels/reference/reference.h"

namespace colossus {

template <class S>
void EmbeddingReference(const ReferenceCall& call) {
  TensorView table = call.x(0), ids = call.x(1);
  int64_t rows = table.dim(0), c = table.dim(1);
  bool part = call.attributes().Has("origin");
  int64_t origin = call.attributes().IntOr("origin", 0);
  double outside = part ? 0 : std::numeric_limits<double>::quiet_NaN();
  for (int64_t n = 0; n < ids.elements(); ++n) {
    int64_t row = ids.GetInt(n) - origin;
    bool inside = row >= 0 && row < rows;
    for (int64_t j = 0; j < c; ++j) {
      call.y(0).Set(n * c + j, inside ? table.Get(row * c + j) : outside);
    }
  }
}
COLOSSUS_INSTANTIATE_REFERENCE(EmbeddingReference)

template <class S>
void EmbeddingGradReference(const ReferenceCall& call) {
  TensorView dy = call.x(0), ids = call.x(1);
  int64_t rows = call.y(0).dim(0), c = call.y(0).dim(1);
  int64_t origin = call.attributes().IntOr("origin", 0);
  std::vector<S> sums(rows * c);
  for (int64_t n = 0; n < ids.elements(); ++n) {
    int64_t row = ids.GetInt(n) - origin;
    if (row < 0 || row >= rows) continue;
    for (int64_t j = 0; j < c; ++j) sums[row * c + j] += S(dy.Get(n * c + j));
  }
  for (int64_t i = 0; i < rows * c; ++i) call.y(0).Set(i, ToDouble(sums[i]));
}
COLOSSUS_INSTANTIATE_REFERENCE(EmbeddingGradReference)

}  // namespace colossus
