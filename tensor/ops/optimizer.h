// Optimizer updates: adamw and sgd, one pass over the states of many parameters.
//
// Purpose: unscaling and clipping (grad_scale), decay, moments, the new master and its 16-bit copy
// in one kernel. Arithmetic is that of the masters' dtype (f32, or f64), rounded after every
// operation in the order written, so that every kernel gives the same bits, however many parameters
// a node updates:
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
// Moments may be kept in bf16: they are computed in f32 as above, used so, and rounded
// stochastically when stored (stochastic_rounding.h), m by the low and v by the high half of the
// random bits of (key, parameter, element), u by the low half.
// Thread-safety: stateless singletons. Results may overwrite the operands they replace.
//
//   std::vector<AdamwResults> r = Adamw(b, {{master, grad, m, v, 0.1}}, scalars, options);
//   b.UpdateState(master, r[0].master);
#ifndef COLOSSUS_TENSOR_OPS_OPTIMIZER_H_
#define COLOSSUS_TENSOR_OPS_OPTIMIZER_H_

#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensor/graph/attributes.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/element_segments.h"
#include "tensor/ops/op.h"

namespace colossus {

// The most parameters that one node updates.
inline constexpr int kMaxUpdated = 256;

// Operands, for each parameter: master (f32 or f64, the same for all; any dims), grad (same dims,
// float; f64 only beside f64), m, v (as master). After them learning_rate, grad_scale, correction1,
// correction2 (0-d, the masters' dtype). Attributes: beta1, beta2, epsilon (float), weight_decay
// (floats, one per parameter), compute (string, optional: dtype of a copy). Results, for each
// parameter: master', m', v', and the copy if wanted.
// With the attribute moments = "bf16", of f32 masters, m and v are bf16, a last operand is the key
// i64[2], seed and update, and sites and segments (element_segments.h) say which elements the
// parameters are: parameter 0 is buffer 0. What is in no segment is rounded towards zero.
const Op& AdamwOp();

// Operands, for each parameter: master, grad, momentum (as master); then learning_rate, grad_scale.
// Attributes: momentum (float), weight_decay (floats), compute. Results, for each parameter:
// master', momentum', and the copy if wanted. bf16 moments as adamw.
const Op& SgdOp();

struct AdamwParameter {
  ValueId master, grad, m, v;
  double weight_decay = 0;
  std::vector<ElementSegment> elements = {};  // of bf16 moments; `buffer` is set here
};
struct AdamwOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  std::optional<DType> compute;  // dtype of the copies; none without
};
struct AdamwScalars {
  ValueId learning_rate, grad_scale, correction1, correction2;
  ValueId key = kNoValue;  // of bf16 moments
};
struct AdamwResults {
  ValueId master, m, v;
  ValueId compute = kNoValue;  // the copy, if asked for
};
// One entry per parameter, also after an error.
std::vector<AdamwResults> Adamw(GraphBuilder& graph, absl::Span<const AdamwParameter> parameters,
                                const AdamwScalars& scalars, const AdamwOptions& options,
                                absl::string_view name = "");

struct SgdParameter {
  ValueId master, grad, momentum;
  double weight_decay = 0;
  std::vector<ElementSegment> elements = {};
};
struct SgdOptions {
  double momentum = 0;
  std::optional<DType> compute;
};
struct SgdResults {
  ValueId master, momentum;
  ValueId compute = kNoValue;
};
std::vector<SgdResults> Sgd(GraphBuilder& graph, absl::Span<const SgdParameter> parameters,
                            ValueId learning_rate, ValueId grad_scale, const SgdOptions& options,
                            absl::string_view name = "", ValueId key = kNoValue);

// Whether moments are bf16.
bool HasNarrowMoments(const Attributes& attributes);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_OPTIMIZER_H_
