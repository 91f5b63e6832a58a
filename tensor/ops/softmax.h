// softmax: exp(x - max) / sum of the same, over the last dim.
//
// Purpose: probabilities where the product with values is not wanted in the same op (that is
// `attention`) nor the loss (`cross_entropy`).
// Thread-safety: stateless singletons.
//
//   ValueId p = Softmax(b, scores);   // each row of the last dim sums to 1
#ifndef COLOSSUS_TENSOR_OPS_SOFTMAX_H_
#define COLOSSUS_TENSOR_OPS_SOFTMAX_H_

#include "tensor/graph/builder.h"
#include "tensor/ops/op.h"

namespace colossus {

// softmax. Operand: x (float, at least one dim). A row without a finite entry gives NaN.
const Op& SoftmaxOp();
// softmax_grad. Operands: dy, y (the result of softmax), of one type. dx = y (dy - sum(dy y)).
const Op& SoftmaxGradOp();

ValueId Softmax(GraphBuilder& b, ValueId x);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_SOFTMAX_H_
