// layer_norm and rms_norm over the last dim, with their gradients.
//
//   layer_norm: y = (x - mean) * rstd * weight + bias,  rstd = 1 / sqrt(var + eps), var over c
//   rms_norm:   y = x * rstd * (weight + offset),       rstd = 1 / sqrt(mean(x^2) + eps)
//
// Purpose: statistics are results, kept for the gradient: f32, f64 for f64 operands. Everything is
// computed in at least f32 and rounded once to the result's dtype.
// Thread-safety: stateless singletons.
//
//   ValueId y = LayerNorm(b, x, weight, bias, 1e-5, DType::kBF16);
//   ValueId z = RmsNorm(b, x, weight, 1e-6);
#ifndef COLOSSUS_TENSOR_OPS_NORM_H_
#define COLOSSUS_TENSOR_OPS_NORM_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/op.h"

namespace colossus {

// Operands: x[.. c], with weight[c], bias[c] (any float dtypes). Attributes: eps (float), dtype
// (string, optional: of y, default x's). Results: y[.. c], mean[..], rstd[..].
const Op& LayerNormOp();

// Operands: dy[.. c], x[.. c], mean[..], rstd[..], with weight[c]. Attribute: bias (bool: whether
// dbias is wanted). Results: dx (x's dtype), dweight[c] if there is a weight, dbias[c] if wanted,
// both in the dtype of the statistics.
const Op& LayerNormGradOp();

// Operands: x[.. c], with weight[c]. Attributes: eps (float), offset (int, 0 or 1: added to the
// weight, default 0), dtype (string, optional). Results: y[.. c], rstd[..].
const Op& RmsNormOp();

// Operands: dy[.. c], x[.. c], rstd[..], with weight[c]. Attribute: offset. Results: dx, dweight[c]
// if there is a weight.
const Op& RmsNormGradOp();

// y. weight and bias may be kNoValue; `result`: dtype of y, default that of x.
ValueId LayerNorm(GraphBuilder& graph, ValueId x, ValueId weight, ValueId bias, double eps,
                  std::optional<DType> result = std::nullopt, absl::string_view name = "");

// y. weight may be kNoValue.
ValueId RmsNorm(GraphBuilder& graph, ValueId x, ValueId weight, double eps, int offset = 0,
                std::optional<DType> result = std::nullopt, absl::string_view name = "");

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_NORM_H_
