#include <vector>

#include "tensor/kernels/reference/reference.h"
#include "tensor/ops/op.h"

namespace colossus {
namespace {

// The weight of entry j, offset included; 1 without a weight.
template <class S>
class Weight {
 public:
  Weight(const ReferenceCall& call, int fixed)
      : call_(call), index_(OptionalOperand(call.attributes(), fixed, "weight")),
        offset_(call.attributes().IntOr("offset", 0)) {}
  bool present() const { return index_ >= 0; }
  S Times(S value, int64_t j) const {
    if (!present()) return value;
    S weight(call_.x(index_).Get(j));
    return value * (offset_ == 0 ? weight : weight + S(static_cast<double>(offset_)));
  }

 private:
  const ReferenceCall& call_;
  int index_;
  int64_t offset_;
};

// dx = rstd * (gx - mean(gx) - xhat * mean(gx * xhat)), without the first mean for rms_norm;
// dweight = sum of dy * xhat, dbias = sum of dy over rows. `mean_index` < 0: rms_norm.
template <class S>
void NormGradient(const ReferenceCall& call, int mean_index, int rstd_index, bool wants_bias) {
  bool centred = mean_index >= 0;
  Weight<S> weight(call, rstd_index + 1);
  int64_t c = call.x(1).dims().back(), rows = call.x(1).elements() / c;
  std::vector<S> dweight(c), dbias(c), xhat(c), gx(c);
  for (int64_t row = 0; row < rows; ++row) {
    S rstd(call.x(rstd_index).Get(row)), sum(0), product_sum(0);
    for (int64_t j = 0; j < c; ++j) {
      S dy(call.x(0).Get(row * c + j)), x(call.x(1).Get(row * c + j));
      xhat[j] = (centred ? x - S(call.x(mean_index).Get(row)) : x) * rstd;
      gx[j] = weight.Times(dy, j);
      if (centred) sum += gx[j];
      product_sum += gx[j] * xhat[j];
      if (weight.present()) dweight[j] += dy * xhat[j];
      if (wants_bias) dbias[j] += dy;
    }
    S count(static_cast<double>(c)), mean = centred ? sum / count : S(0);
    S product_mean = product_sum / count;
    for (int64_t j = 0; j < c; ++j) {
      S dx = rstd * ((centred ? gx[j] - mean : gx[j]) - xhat[j] * product_mean);
      call.y(0).Set(row * c + j, ToDouble(dx));
    }
  }
  for (int64_t j = 0; j < c; ++j) {
    if (weight.present()) call.y(1).Set(j, ToDouble(dweight[j]));
    if (wants_bias) call.y(weight.present() ? 2 : 1).Set(j, ToDouble(dbias[j]));
  }
}

}  // namespace

template <class S>
void LayerNormReference(const ReferenceCall& call) {
  Weight<S> weight(call, 1);
  int bias = OptionalOperand(call.attributes(), 1, "bias");
  TensorView x = call.x(0);
  int64_t c = x.dims().back(), rows = x.elements() / c;
  S count(static_cast<double>(c));
  for (int64_t row = 0; row < rows; ++row) {
    S sum(0), square_sum(0);
    for (int64_t j = 0; j < c; ++j) sum += S(x.Get(row * c + j));
    S mean = sum / count;
    for (int64_t j = 0; j < c; ++j) {
      S difference = S(x.Get(row * c + j)) - mean;
      square_sum += difference * difference;
    }
    S rstd = S(1) / Sqrt(square_sum / count + S(call.attributes().Float("eps")));
    for (int64_t j = 0; j < c; ++j) {
      S y = weight.Times((S(x.Get(row * c + j)) - mean) * rstd, j);
      if (bias >= 0) y += S(call.x(bias).Get(j));
      call.y(0).Set(row * c + j, ToDouble(y));
    }
    call.y(1).Set(row, ToDouble(mean));
    call.y(2).Set(row, ToDouble(rstd));
  }
}
COLOSSUS_INSTANTIATE_REFERENCE(LayerNormReference)

template <class S>
void RmsNormReference(const ReferenceCall& call) {
  Weight<S> weight(call, 1);
  TensorView x = call.x(0);
  int64_t c = x.dims().back(), rows = x.elements() / c;
  for (int64_t row = 0; row < rows; ++row) {
    S sum(0);
    for (int64_t j = 0; j < c; ++j) sum += S(x.Get(row * c + j)) * S(x.Get(row * c + j));
    S mean = sum / S(static_cast<double>(c));
    S rstd = S(1) / Sqrt(mean + S(call.attributes().Float("eps")));
    for (int64_t j = 0; j < c; ++j) {
      call.y(0).Set(row * c + j, ToDouble(weight.Times(S(x.Get(row * c + j)) * rstd, j)));
    }
    call.y(1).Set(row, ToDouble(rstd));
  }
}
COLOSSUS_INSTANTIATE_REFERENCE(RmsNormReference)

template <class S>
void LayerNormGradReference(const ReferenceCall& call) {
  NormGradient<S>(call, 2, 3, call.attributes().Bool("bias"));
}
COLOSSUS_INSTANTIATE_REFERENCE(LayerNormGradReference)

template <class S>
void RmsNormGradReference(const ReferenceCall& call) {
  NormGradient<S>(call, -1, 2, false);
}
COLOSSUS_INSTANTIATE_REFERENCE(RmsNormGradReference)

}  // namespace colossus
