// The list of reference kernels: one line per op, sorted.
#include "tensor/kernels/reference/reference.h"

namespace colossus {

#define COLOSSUS_REFERENCES(X) \
  X("abs", AbsReference) \
  X("adamw", AdamwReference) \
  X("add", AddReference) \
  X("add_scalar", AddScalarReference) \
  X("attention", AttentionReference) \
  X("attention_grad", AttentionGradReference) \
  X("attention_merge", AttentionMergeReference) \
  X("broadcast", BroadcastReference) \
  X("cache_append", CacheAppendReference) \
  X("chain", ChainReference) \
  X("combine", CombineReference) \
  X("combine_grad", CombineGradReference) \
  X("concat", ConcatReference) \
  X("constant", ConstantReference) \
  X("convert", ConvertReference) \
  X("cos", CosReference) \
  X("cross_entropy", CrossEntropyReference) \
  X("cross_entropy_grad", CrossEntropyGradReference) \
  X("cross_entropy_merge", CrossEntropyMergeReference) \
  X("cross_entropy_part", CrossEntropyPartReference) \
  X("dispatch", DispatchReference) \
  X("dispatch_grad", DispatchGradReference) \
  X("div", DivReference) \
  X("dropout", DropoutReference) \
  X("embedding", EmbeddingReference) \
  X("embedding_grad", EmbeddingGradReference) \
  X("equal", EqualReference) \
  X("erf", ErfReference) \
  X("exp", ExpReference) \
  X("gelu", GeluReference) \
  X("gelu_grad", GeluGradReference) \
  X("gelu_tanh", GeluTanhReference) \
  X("gelu_tanh_grad", GeluTanhGradReference) \
  X("greater", GreaterReference) \
  X("greater_equal", GreaterEqualReference) \
  X("grouped_matmul", GroupedMatmulReference) \
  X("grouped_matmul_grad_w", GroupedMatmulGradWReference) \
  X("iota", IotaReference) \
  X("layer_norm", LayerNormReference) \
  X("layer_norm_grad", LayerNormGradReference) \
  X("less", LessReference) \
  X("less_equal", LessEqualReference) \
  X("linear_cross_entropy", LinearCrossEntropyReference) \
  X("log", LogReference) \
  X("logical_and", LogicalAndReference) \
  X("logical_not", LogicalNotReference) \
  X("logical_or", LogicalOrReference) \
  X("matmul", MatmulReference) \
  X("maximum", MaximumReference) \
  X("minimum", MinimumReference) \
  X("mul", MulReference) \
  X("neg", NegReference) \
  X("pack", PackReference) \
  X("pad", PadReference) \
  X("quick_gelu", QuickGeluReference) \
  X("quick_gelu_grad", QuickGeluGradReference) \
  X("reduce_max", ReduceMaxReference) \
  X("reduce_sum", ReduceSumReference) \
  X("relu", ReluReference) \
  X("relu_grad", ReluGradReference) \
  X("reshape", ReshapeReference) \
  X("rms_norm", RmsNormReference) \
  X("rms_norm_grad", RmsNormGradReference) \
  X("rotary", RotaryReference) \
  X("rsqrt", RsqrtReference) \
  X("scale", ScaleReference) \
  X("select", SelectReference) \
  X("sgd", SgdReference) \
  X("sigmoid", SigmoidReference) \
  X("sigmoid_grad", SigmoidGradReference) \
  X("silu", SiluReference) \
  X("silu_grad", SiluGradReference) \
  X("sin", SinReference) \
  X("slice", SliceReference) \
  X("softmax", SoftmaxReference) \
  X("softmax_grad", SoftmaxGradReference) \
  X("sqrt", SqrtReference) \
  X("square", SquareReference) \
  X("stack", StackReference) \
  X("sub", SubReference) \
  X("sum_squares", SumSquaresReference) \
  X("tanh", TanhReference) \
  X("tanh_grad", TanhGradReference) \
  X("topk", TopkReference) \
  X("topk_grad", TopkGradReference) \
  X("transpose", TransposeReference) \
  X("unpack", UnpackReference) \
  X("unstack", UnstackReference)

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
