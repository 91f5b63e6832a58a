// Cross-entropy of logits whose columns lie on several ranks: what a rank finds out from its own,
// and what follows from what all of them found.
//
//   part[0] = log(sum over own classes of exp(logit)), part[1] = the label's logit, if it is here
//   lse = log(sum over parts of exp(part[0])), loss = lse - sum over parts of part[1]
//
// Purpose: made by the lowering of the losses (loss_expand.h), after differentiation: no gradients.
// Thread-safety: stateless singletons.
//
//   ValueId part = CrossEntropyPart(b, logits, labels, /*origin=*/25, /*classes=*/97);
//   ValueId parts = AllGather(b, part, {"tensor"}, 4, 0);        // [8 ..]
//   ValueIds loss_sum_and_lse = CrossEntropyMerge(b, parts, labels, 97);
#ifndef COLOSSUS_TENSOR_OPS_LOSS_PARTS_H_
#define COLOSSUS_TENSOR_OPS_LOSS_PARTS_H_

#include <cstdint>

#include "tensor/graph/builder.h"
#include "tensor/ops/loss.h"
#include "tensor/ops/op.h"

namespace colossus {

// Operands: logits[.. v] float: columns origin to origin + v of the whole; labels[..] i32 or i64.
// Attributes: origin (int), classes (int, of the whole: columns from there on are padding).
// Result: part[2 ..] f32 (f64 for f64): -infinity if no column is a class; 0 without the label.
const Op& CrossEntropyPartOp();

// Operands: parts[2p ..] f32 or f64, the results of p ranks; labels[..]. Attributes: classes (int),
// ignore (int, -100). Results: loss_sum[] and lse[..], as of cross_entropy.
const Op& CrossEntropyMergeOp();

ValueId CrossEntropyPart(GraphBuilder& graph, ValueId logits, ValueId labels, int64_t origin,
                         int64_t classes);
ValueIds CrossEntropyMerge(GraphBuilder& graph, ValueId parts, ValueId labels, int64_t classes,
                           int64_t ignore = kIgnoreLabel);
// cross_entropy_grad of such columns, as `result`.
ValueId CrossEntropyGradOfPart(GraphBuilder& graph, ValueId dloss, ValueId logits, ValueId labels,
                               ValueId lse, int64_t origin, int64_t classes, int64_t ignore,
                               DType result);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_LOSS_PARTS_H_
