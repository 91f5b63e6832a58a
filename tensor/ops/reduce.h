// Reductions: the sum or the maximum over some dims.
//
// Purpose: ReduceSum accumulates in at least fp32 and rounds once to the result's dtype. SumTo is
// what gradients of broadcasting ops use to bring a cotangent to an operand's dims.
// Thread-safety: stateless singletons.
//
//   ValueId total = ReduceSum(b, x, {0, 1}, /*keep=*/false, DType::kF32);   // [2,3,4] -> [4]
//   ValueId peak = ReduceMax(b, x, {2}, /*keep=*/true);                     // [2,3,4] -> [2,3,1]
#ifndef COLOSSUS_TENSOR_OPS_REDUCE_H_
#define COLOSSUS_TENSOR_OPS_REDUCE_H_

#include <optional>

#include "absl/types/span.h"
#include "tensor/graph/attributes.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/op.h"

namespace colossus {

// reduce_sum. Operand: x (float, i32 or i64). Attributes: `dims` (ints, ascending: the dims to
// reduce), `keep` (bool: keep them with extent 1), `dtype` (string, optional: the result's). An
// empty sum is 0.
const Op& ReduceSumOp();
// reduce_max. The same without `dtype`. An empty maximum is the lowest value of the dtype. Its
// gradient is shared equally by the elements that attain the maximum.
const Op& ReduceMaxOp();

// `dtype`: of the result; default that of x. No dims: x, converted.
ValueId ReduceSum(GraphBuilder& b, ValueId x, Ints dims, bool keep,
                  std::optional<DType> dtype = std::nullopt);
ValueId ReduceMax(GraphBuilder& b, ValueId x, Ints dims, bool keep);

// Sums `dx` over the dims along which an operand of `dims` was broadcast (right-aligned) and
// converts to `dtype`. REQUIRES: `dims` broadcasts to the dims of dx.
ValueId SumTo(GraphBuilder& b, ValueId dx, absl::Span<const int64_t> dims, DType dtype);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_REDUCE_H_
