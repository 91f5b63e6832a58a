// The list of reference kernels: two lines per op.
#include "tensor/kernels/reference/reference.h"

namespace colossus {

#define COLOSSUS_REFERENCES(X) \
  X("adamw", AdamwReference) \
  X("attention", AttentionReference) \
  X("attention_grad", AttentionGradReference) \
  X("cache_append", CacheAppendReference) \
  X("combine", CombineReference) \
  X("combine_grad", CombineGradReference) \
  X("convert", ConvertReference) \
  X("cross_entropy", CrossEntropyReference) \
  X("cross_entropy_grad", CrossEntropyGradReference) \
  X("dispatch", DispatchReference) \
  X("dispatch_grad", DispatchGradReference) \
  X("dropout", DropoutReference) \
  X("embedding", EmbeddingReference) \
  X("embedding_grad", EmbeddingGradReference) \
  X("grouped_matmul", GroupedMatmulReference) \
  X("grouped_matmul_grad_w", GroupedMatmulGradWReference) \
  X("layer_norm", LayerNormReference) \
  X("layer_norm_grad", LayerNormGradReference) \
  X("linear_cross_entropy", LinearCrossEntropyReference) \
  X("matmul", MatmulReference) \
  X("rms_norm", RmsNormReference) \
  X("rms_norm_grad", RmsNormGradReference) \
  X("rotary", RotaryReference) \
  X("sgd", SgdReference) \
  X("sum_squares", SumSquaresReference) \
  X("topk", TopkReference) \
  X("topk_grad", TopkGradReference)

#define COLOSSUS_DECLARE(op, function) \
  template <class S>                   \
  void function(const ReferenceCall& call);
COLOSSUS_REFERENCES(COLOSSUS_DECLARE)
#undef COLOSSUS_DECLARE

const Reference* FindReference(absl::string_view op_name) {
#define COLOSSUS_ROW(op, function) {op, &function<double>, &function<Counted>},
  static constexpr Reference kList[] = {COLOSSUS_REFERENCES(COLOSSUS_ROW)};
#undef COLOSSUS_ROW
  for (const Reference& reference : kList) {
    if (reference.op == op_name) return &reference;
  }
  return nullptr;
}

}  // namespace colossus
