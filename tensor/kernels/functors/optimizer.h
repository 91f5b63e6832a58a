// adamw and sgd as functors: one element each, rounded after every operation in the order that
// tensor/ops/optimizer.h writes, so that the bits are those of every other kernel.
//
// Thread-safety: plain values. Ownership: views of device memory; results may be the operands.
#ifndef COLOSSUS_TENSOR_KERNELS_FUNCTORS_OPTIMIZER_H_
#define COLOSSUS_TENSOR_KERNELS_FUNCTORS_OPTIMIZER_H_

#include <cmath>
#include <cstdint>

#include "tensor/kernels/functors/element.h"

namespace colossus {

struct AdamwElement {
  const float *master = nullptr, *m = nullptr, *v = nullptr;
  Source grad;
  const float *learning_rate = nullptr, *grad_scale = nullptr;
  const float *correction1 = nullptr, *correction2 = nullptr;
  float *new_master = nullptr, *new_m = nullptr, *new_v = nullptr;
  Target copy;  // may be absent
  float beta1 = 0, one_minus_beta1 = 0, beta2 = 0, one_minus_beta2 = 0, epsilon = 0;
  float weight_decay = 0;

  HD void operator()(int64_t i) const {
    const float decay = 1.0f - *learning_rate * weight_decay;
    const float step = *learning_rate / *correction1, root2 = std::sqrt(*correction2);
    const float g = grad.F(i) * *grad_scale;
    const float m1 = beta1 * m[i] + one_minus_beta1 * g;
    const float v1 = beta2 * v[i] + (one_minus_beta2 * g) * g;
    const float p = master[i] * decay;
    const float denominator = std::sqrt(v1) / root2 + epsilon;
    const float p1 = p - (step * m1) / denominator;
    new_master[i] = p1;
    new_m[i] = m1;
    new_v[i] = v1;
    if (copy.present()) copy.Set(i, p1);
  }
};

struct SgdElement {
  const float *master = nullptr, *u = nullptr;
  Source grad;
  const float *learning_rate = nullptr, *grad_scale = nullptr;
  float *new_master = nullptr, *new_u = nullptr;
  Target copy;
  float momentum = 0, weight_decay = 0;

  HD void operator()(int64_t i) const {
    const float p = master[i];
    const float g = grad.F(i) * *grad_scale + weight_decay * p;
    const float u1 = momentum * u[i] + g;
    const float p1 = p - *learning_rate * u1;
    new_master[i] = p1;
    new_u[i] = u1;
    if (copy.present()) copy.Set(i, p1);
  }
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_FUNCTORS_OPTIMIZER_H_
