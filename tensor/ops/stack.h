// unstack and stack: one tensor as several along a dim, and back.
//
// Purpose: parts of a fused product (query, key, value) as values of their own; the gradient of one
// is the other, so nothing is padded or added.
// Thread-safety: stateless singletons.
//
//   ValueIds qkv = Unstack(b, x, 2);       // [b s 3 h d] -> three of [b s h d]
//   ValueId again = Stack(b, qkv, 2);      // [b s 3 h d]
#ifndef COLOSSUS_TENSOR_OPS_STACK_H_
#define COLOSSUS_TENSOR_OPS_STACK_H_

#include "tensor/graph/builder.h"
#include "tensor/ops/op.h"

namespace colossus {

// unstack. Operand: x. Attribute: dim (int). Results: one per index of the dim, without it.
const Op& UnstackOp();
// stack. Operands: one or more values of one type. Attribute: dim (int), of the result.
const Op& StackOp();

ValueIds Unstack(GraphBuilder& graph, ValueId x, int dim);
ValueId Stack(GraphBuilder& graph, ValueIds parts, int dim);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_STACK_H_
