// matmul: a product of two tensors, an einsum by labels.
//
//   y[labels of y] = sum over labels in no result of a[...] * b[...]
//
// Purpose: every dense product of a model, with heads and fused projections as dims of their own,
// so that sharding sees them. The sum is accumulated in at least fp32 and rounded once to the
// result's dtype.
// Thread-safety: a stateless singleton.
//
//   // y[b,s,k,h,d] = sum_c x[b,s,c] w[c,k,h,d]
//   ValueId y = Matmul(b, "b s c, c k h d -> b s k h d", x, w);
#ifndef COLOSSUS_TENSOR_OPS_MATMUL_H_
#define COLOSSUS_TENSOR_OPS_MATMUL_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/op.h"

namespace colossus {

// Operands: a, b (the same float dtype). Attributes: `spec` (string, a factor rule without groups
// and without `1`); `dtype` (string, optional: the result's, default the operands').
const Op& MatmulOp();

// `result`: dtype of the result; default that of the operands.
ValueId Matmul(GraphBuilder& graph, absl::string_view spec, ValueId a, ValueId b,
               std::optional<DType> result = std::nullopt, absl::string_view name = "");

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_MATMUL_H_
