#include <cstring>

#include "tensor/kernels/reference/reference.h"

namespace colossus {

template <class S>
void UnpackReference(const ReferenceCall& call) {
  const TensorView x = call.x(0);
  const Ints& offsets = call.attributes().IntList("offsets");
  for (int i = 0; i < call.y_count(); ++i) {
    const MutableTensorView y = call.y(i);
    if (y.elements() == 0) continue;
    std::memcpy(y.raw(),
                static_cast<const char*>(x.raw()) +
                    offsets[static_cast<size_t>(i)] * SizeOf(x.type().dtype),
                static_cast<size_t>(y.type().bytes()));
  }
}
COLOSSUS_INSTANTIATE_REFERENCE(UnpackReference)

// An operand may be at its place already.
template <class S>
void PackReference(const ReferenceCall& call) {
  const MutableTensorView y = call.y(0);
  const int64_t size = SizeOf(y.type().dtype);
  const Ints& offsets = call.attributes().IntList("offsets");
  char* const base = static_cast<char*>(y.raw());
  int64_t end = 0;  // bytes
  for (int i = 0; i < call.x_count(); ++i) {
    const TensorView x = call.x(i);
    const int64_t bytes = x.type().bytes();
    if (bytes == 0) continue;
    char* const place = base + offsets[static_cast<size_t>(i)] * size;
    if (place > base + end) std::memset(base + end, 0, static_cast<size_t>(place - (base + end)));
    if (place != x.raw()) std::memcpy(place, x.raw(), static_cast<size_t>(bytes));
    end = place - base + bytes;
  }
  if (y.type().bytes() > end) {
    std::memset(base + end, 0, static_cast<size_t>(y.type().bytes() - end));
  }
}
COLOSSUS_INSTANTIATE_REFERENCE(PackReference)

}  // namespace colossus
