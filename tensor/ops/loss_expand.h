// The losses with the vocabulary split over ranks. Internal to the ops in loss.h.
//
// Purpose: every rank has some columns of the logits. It takes the logarithm of the sum of its
// exponentials and, where it has the label, the label's logit (cross_entropy_part); these few
// numbers are gathered, and every rank puts together the same loss and lse (cross_entropy_merge).
//   linear_cross_entropy works chunk by chunk of tokens, as its kernel does: three products a
// chunk, none twice. Its dx comes out partial over the axes of the vocabulary, dw is the rank's
// rows. Where the width c is split too, a chunk's logits are summed over its axes before.
// Traffic per token: 2 numbers from each rank of the vocabulary's axes.
#ifndef COLOSSUS_TENSOR_OPS_LOSS_EXPAND_H_
#define COLOSSUS_TENSOR_OPS_LOSS_EXPAND_H_

#include "absl/status/status.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/sharded_call.h"

namespace colossus {

absl::Status ExpandCrossEntropy(ShardedCall& call, GraphBuilder& graph);
absl::Status ExpandLinearCrossEntropy(ShardedCall& call, GraphBuilder& graph);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_LOSS_EXPAND_H_
