#include "tensor/ops/op_list.h"

#include <algorithm>
#include <vector>

#include "tensor/ops/attention.h"
#include "tensor/ops/cache_append.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/dropout.h"
#include "tensor/ops/embedding.h"
#include "tensor/ops/experts.h"
#include "tensor/ops/loss.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/norm.h"
#include "tensor/ops/optimizer.h"
#include "tensor/ops/rotary.h"
#include "tensor/ops/sum_squares.h"
#include "tensor/ops/topk.h"

namespace colossus {
namespace {

std::vector<const Op*> MakeList() {
  std::vector<const Op*> ops = {
      &AdamwOp(),
      &AttentionOp(),
      &AttentionGradOp(),
      &CacheAppendOp(),
      &CombineOp(),
      &CombineGradOp(),
      &ConvertOp(),
      &CrossEntropyOp(),
      &CrossEntropyGradOp(),
      &DispatchOp(),
      &DispatchGradOp(),
      &DropoutOp(),
      &EmbeddingOp(),
      &EmbeddingGradOp(),
      &GroupedMatmulOp(),
      &GroupedMatmulGradWOp(),
      &LayerNormOp(),
      &LayerNormGradOp(),
      &LinearCrossEntropyOp(),
      &MatmulOp(),
      &RmsNormOp(),
      &RmsNormGradOp(),
      &RotaryOp(),
      &SgdOp(),
      &SumSquaresOp(),
      &TopkOp(),
      &TopkGradOp(),
  };
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
