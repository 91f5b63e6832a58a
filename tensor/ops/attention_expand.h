// Attention with queries and keys split over the same ranks: a ring. Internal to attention.cc.
//
// Purpose: rank r of P has queries and keys r. In P steps every block of keys and values comes by:
// each step shifts the block to the next rank (before the work on it, so that both can go on at
// once) and attends to it; results are put together by their log-sum-exp (attention_merge). At most
// two blocks are live, the one at hand and the next.
//   The backward is a second ring: each step gives a part of dq and the gradients of the block
// at hand, which follow it around and come home after the last step. Per rank and layer, in
// elements sent: forward (P - 1)/P of k and v, backward (P - 1)/P of k, v, dk and dv.
//   What decides which key a query sees travels with the keys (segments, positions) or follows from
// the block's origin (default positions, dropout); a bias has all its keys. All ranks have the same
// nodes. Where the host deals rows out in zigzag order and gives their positions, all ranks have
// equal work: a kernel leaves out what is not visible.
#ifndef COLOSSUS_TENSOR_OPS_ATTENTION_EXPAND_H_
#define COLOSSUS_TENSOR_OPS_ATTENTION_EXPAND_H_

#include "absl/status/status.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/sharded_call.h"

namespace colossus {

// Error: InvalidArgument if the axes of t are not those of s.
absl::Status ExpandAttention(ShardedCall& call, GraphBuilder& graph);
absl::Status ExpandAttentionGrad(ShardedCall& call, GraphBuilder& graph);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_ATTENTION_EXPAND_H_
