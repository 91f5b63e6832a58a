#include "tensor/kernels/reference/reference.h"

namespace colossus {
namespace {

// Angles, cos and sin are f32 values unless x is f64.
template <class S>
S Rounded(S value, bool wide) {
  return wide ? value : S(static_cast<double>(static_cast<float>(ToDouble(value))));
}

}  // namespace

template <class S>
void RotaryReference(const ReferenceCall& call) {
  TensorView x = call.x(0);
  MutableTensorView y = call.y(0);
  int64_t h = x.dim(2), d = x.dim(3), half = call.x(2).dim(0), rows = x.dim(0) * x.dim(1);
  bool interleaved = call.attributes().BoolOr("interleaved", false);
  bool inverse = call.attributes().BoolOr("inverse", false), wide = x.type().dtype == DType::kF64;
  S scale(call.attributes().FloatOr("scale", 1));
  for (int64_t row = 0; row < rows; ++row) {
    S position(static_cast<double>(call.x(1).GetInt(row)));
    for (int64_t f = 0; f < half; ++f) {
      S angle = Rounded(position * S(call.x(2).Get(f)), wide);
      S cos = Rounded(Rounded(Cos(angle), wide) * scale, wide);
      S sin = Rounded(Rounded(Sin(angle), wide) * scale, wide);
      if (inverse) sin = -sin;
      for (int64_t head = 0; head < h; ++head) {
        int64_t first = (row * h + head) * d + (interleaved ? 2 * f : f);
        int64_t second = interleaved ? first + 1 : first + half;
        S x1(x.Get(first)), x2(x.Get(second));
        y.Set(first, ToDouble(x1 * cos - x2 * sin));
        y.Set(second, ToDouble(x2 * cos + x1 * sin));
      }
    }
    for (int64_t head = 0; head < h; ++head) {
      for (int64_t i = 2 * half; i < d; ++i) {
        y.Set((row * h + head) * d + i, x.Get((row * h + head) * d + i));
      }
    }
  }
}
COLOSSUS_INSTANTIATE_REFERENCE(RotaryReference)

}  // namespace colossus
