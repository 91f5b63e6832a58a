// attention_merge: attention over two sets of keys as one.
//
//   lse = log(exp(lse_a) + exp(lse_b));  out = out_a exp(lse_a - lse) + out_b exp(lse_b - lse)
//
// Purpose: what ring attention (attention_expand.h) puts blocks of keys together with. Made after
// differentiation: no gradient. Where neither has a key, out is 0 and lse -infinity.
// Thread-safety: a stateless singleton.
//
//   ValueIds both = AttentionMerge(b, out, lse, next_out, next_lse);   // out and lse
#ifndef COLOSSUS_TENSOR_OPS_ATTENTION_MERGE_H_
#define COLOSSUS_TENSOR_OPS_ATTENTION_MERGE_H_

#include "tensor/graph/builder.h"
#include "tensor/ops/op.h"

namespace colossus {

// Operands: out_a[b s h e] f32 or f64, lse_a[b h s] of the same dtype, out_b[b s h e] of any float
// dtype, lse_b as lse_a. No attributes. Results: out and lse, of the types of out_a and lse_a.
const Op& AttentionMergeOp();

ValueIds AttentionMerge(GraphBuilder& graph, ValueId out_a, ValueId lse_a, ValueId out_b,
                        ValueId lse_b);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_ATTENTION_MERGE_H_
