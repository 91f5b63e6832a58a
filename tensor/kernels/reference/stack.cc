#include <cstring>

#include "tensor/kernels/reference/reference.h"

namespace colossus {
namespace {

// Calls copy(part, bytes inside the large tensor, bytes inside the part, bytes) for every run of
// contiguous bytes.
template <typename Copy>
void ForEachRun(const Type& large, int64_t dim, Copy copy) {
  int64_t outer = 1, inner = SizeOf(large.dtype), parts = large.dims[dim];
  for (int64_t d = 0; d < dim; ++d) outer *= large.dims[d];
  for (int d = static_cast<int>(dim) + 1; d < large.rank(); ++d) inner *= large.dims[d];
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t p = 0; p < parts; ++p) copy(p, (o * parts + p) * inner, o * inner, inner);
  }
}

}  // namespace

template <class S>
void UnstackReference(const ReferenceCall& call) {
  TensorView x = call.x(0);
  ForEachRun(x.type(), call.attributes().Int("dim"),
             [&](int64_t part, int64_t src, int64_t dst, int64_t bytes) {
               std::memcpy(static_cast<char*>(call.y(static_cast<int>(part)).raw()) + dst,
                           static_cast<const char*>(x.raw()) + src, bytes);
             });
}
COLOSSUS_INSTANTIATE_REFERENCE(UnstackReference)

template <class S>
void StackReference(const ReferenceCall& call) {
  MutableTensorView y = call.y(0);
  ForEachRun(y.type(), call.attributes().Int("dim"),
             [&](int64_t part, int64_t dst, int64_t src, int64_t bytes) {
               std::memcpy(static_cast<char*>(y.raw()) + dst,
                           static_cast<const char*>(call.x(static_cast<int>(part)).raw()) + src,
                           bytes);
             });
}
COLOSSUS_INSTANTIATE_REFERENCE(StackReference)

}  // namespace colossus
