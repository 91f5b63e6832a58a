#include "tensor/ops/op_list.h"

#include <algorithm>
#include <vector>

#include "tensor/ops/attention.h"
#include "tensor/ops/attention_merge.h"
#include "tensor/ops/cache_append.h"
#include "tensor/ops/chain.h"
#include "tensor/ops/collective.h"
#include "tensor/ops/constant.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/dropout.h"
#include "tensor/ops/embedding.h"
#include "tensor/ops/experts.h"
#include "tensor/ops/loss.h"
#include "tensor/ops/loss_parts.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/norm.h"
#include "tensor/ops/optimizer.h"
#include "tensor/ops/pack.h"
#include "tensor/ops/pointwise.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/rotary.h"
#include "tensor/ops/shape.h"
#include "tensor/ops/softmax.h"
#include "tensor/ops/stack.h"
#include "tensor/ops/sum_squares.h"
#include "tensor/ops/topk.h"

namespace colossus {
namespace {

std::vector<const Op*> MakeList() {
  std::vector<const Op*> ops = {
      &AdamwOp(),
      &AllGatherOp(),
      &AllReduceOp(),
      &AllToAllOp(),
      &AttentionGradOp(),
      &AttentionMergeOp(),
      &AttentionOp(),
      &BroadcastOp(),
      &CacheAppendOp(),
      &ChainOp(),
      &CombineGradOp(),
      &CombineOp(),
      &ConcatOp(),
      &ConstantOp(),
      &ConvertOp(),
      &CrossEntropyGradOp(),
      &CrossEntropyMergeOp(),
      &CrossEntropyOp(),
      &CrossEntropyPartOp(),
      &DispatchGradOp(),
      &DispatchOp(),
      &DropoutOp(),
      &EmbeddingGradOp(),
      &EmbeddingOp(),
      &GroupedMatmulGradWOp(),
      &GroupedMatmulOp(),
      &IotaOp(),
      &LayerNormGradOp(),
      &LayerNormOp(),
      &LinearCrossEntropyOp(),
      &MatmulOp(),
      &PackOp(),
      &PadOp(),
      &ReceiveOp(),
      &ReduceMaxOp(),
      &ReduceScatterOp(),
      &ReduceSumOp(),
      &ReshapeOp(),
      &RmsNormGradOp(),
      &RmsNormOp(),
      &RotaryOp(),
      &SendOp(),
      &SgdOp(),
      &ShiftOp(),
      &SliceOp(),
      &SoftmaxGradOp(),
      &SoftmaxOp(),
      &StackOp(),
      &SumSquaresOp(),
      &TopkGradOp(),
      &TopkOp(),
      &TransposeOp(),
      &UnpackOp(),
      &UnstackOp(),
  };
  ops.insert(ops.end(), PointwiseOps().begin(), PointwiseOps().end());
  std::sort(ops.begin(), ops.end(), [](const Op* a, const Op* b) { return a->name() < b->name(); });
  return ops;
}

}  // namespace

absl::Span<const Op* const> AllOps() {
  static const std::vector<const Op*>* const list = new std::vector<const Op*>(MakeList());
  return *list;
}

const Op* FindOp(absl::string_view name) {
  for (const Op* op : AllOps()) {
    if (op->name() == name) return op;
  }
  return nullptr;
}

}  // namespace colossus
