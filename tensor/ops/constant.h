// constant and iota: values that come from nowhere but their attributes.
//
// Thread-safety: stateless singletons.
//
//   ValueId half = Constant(b, DType::kF32, {}, {0.5});            // a scalar
//   ValueId zeros = Constant(b, DType::kBF16, {2, 3}, {0});        // one value for all
//   ValueId primes = ConstantInts(b, DType::kI32, {3}, {2, 3, 5});
//   ValueId positions = Iota(b, DType::kI32, {2, 8}, /*dim=*/1);   // 0 ... 7 twice
#ifndef COLOSSUS_TENSOR_OPS_CONSTANT_H_
#define COLOSSUS_TENSOR_OPS_CONSTANT_H_

#include "tensor/graph/attributes.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/op.h"

namespace colossus {

// constant. Attributes: `dtype` (string), `dims` (ints), and `floats` for a float dtype or `ints`
// for any other: one value for all elements, or one per element, row-major.
const Op& ConstantOp();
// iota: the index along `dim` plus `start`. Attributes: `dtype` (string, float, i32 or i64), `dims`
// (ints), `dim` (int), `start` (int, default 0).
const Op& IotaOp();

// REQUIRES: a float dtype; one value, or one per element.
ValueId Constant(GraphBuilder& b, DType dtype, const Dims& dims, Floats values);
// REQUIRES: an integer dtype or bool; likewise.
ValueId ConstantInts(GraphBuilder& b, DType dtype, const Dims& dims, Ints values);
ValueId Iota(GraphBuilder& b, DType dtype, const Dims& dims, int dim);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_CONSTANT_H_
