// Optimizer updates: adamw and sgd, one pass over a state.
//
// Purpose: unscaling and clipping (grad_scale), decay, moments, the new master and its 16-bit copy
// in one kernel. Arithmetic is that of the master's dtype (f32, or f64), rounded after every
// operation in the order written, so that every kernel gives the same bits:
//   adamw: g = grad * grad_scale
//          m = beta1 * m + (1 - beta1) * g
//          v = beta2 * v + ((1 - beta2) * g) * g
//          p = p * (1 - learning_rate * weight_decay)
//          p = p - ((learning_rate / correction1) * m) / (sqrt(v) / sqrt(correction2) + epsilon)
//   sgd:   g = grad * grad_scale + weight_decay * p
//          u = momentum * u + g
//          p = p - learning_rate * u
// beta, 1 - beta, epsilon, weight_decay and momentum are rounded once from double. correctionN is
// 1 - betaN^t for update t = 1, 2, ...
// Thread-safety: stateless singletons. Results may overwrite the operands they replace.
//
//   AdamwResults r = Adamw(b, master, grad, m, v, scalars, options);
//   b.UpdateState(master, r.master);
#ifndef COLOSSUS_TENSOR_OPS_OPTIMIZER_H_
#define COLOSSUS_TENSOR_OPS_OPTIMIZER_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/op.h"

namespace colossus {

// Operands: master (f32 or f64, any dims), grad (same dims, float; f64 only beside f64), m, v (as
// master), learning_rate, grad_scale, correction1, correction2 (0-d, master's dtype). Attributes:
// beta1, beta2, epsilon, weight_decay (float), compute (string, optional: dtype of a copy).
// Results: master', m', v', and the copy if wanted.
const Op& AdamwOp();

// Operands: master, grad, momentum (as master), learning_rate, grad_scale. Attributes: momentum,
// weight_decay (float), compute. Results: master', momentum', and the copy if wanted.
const Op& SgdOp();

struct AdamwOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  std::optional<DType> compute;  // dtype of the copy; none without
};
struct AdamwScalars {
  ValueId learning_rate, grad_scale, correction1, correction2;
};
struct AdamwResults {
  ValueId master, m, v;
  ValueId compute = kNoValue;  // the copy, if asked for
};
AdamwResults Adamw(GraphBuilder& graph, ValueId master, ValueId grad, ValueId m, ValueId v,
                   const AdamwScalars& scalars, const AdamwOptions& options,
                   absl::string_view name = "");

struct SgdOptions {
  double momentum = 0, weight_decay = 0;
  std::optional<DType> compute;
};
struct SgdResults {
  ValueId master, momentum;
  ValueId compute = kNoValue;
};
SgdResults Sgd(GraphBuilder& graph, ValueId master, ValueId grad, ValueId momentum,
               ValueId learning_rate, ValueId grad_scale, const SgdOptions& options,
               absl::string_view name = "");

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_OPTIMIZER_H_
