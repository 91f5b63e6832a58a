#include "tensor/kernels/cpu/cpu_list.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensor/kernels/cpu/plans.h"
#include "tensor/kernels/reference/reference.h"

namespace colossus {
namespace {

struct Entry {
  const char* name;
  PlanFunction plan;
  std::vector<const char*> ops;
};

// Best first.
const std::vector<Entry>& Entries() {
  static const auto* const entries = new std::vector<Entry>{
      {"onednn_matmul", PlanMatmul, {"matmul"}},
      {"cpu_convert", PlanConvert, {"convert"}},
      {"cpu_pointwise", PlanPointwise,
       {"add", "sub", "mul", "div", "maximum", "minimum", "neg", "exp", "log", "sqrt", "rsqrt",
        "square", "abs", "sin", "cos", "tanh", "sigmoid", "erf", "relu", "gelu", "gelu_tanh",
        "quick_gelu", "silu", "equal", "less", "less_equal", "greater", "greater_equal",
        "logical_and", "logical_or", "logical_not", "select", "scale", "add_scalar", "relu_grad",
        "gelu_grad", "gelu_tanh_grad", "quick_gelu_grad", "silu_grad", "tanh_grad",
        "sigmoid_grad"}},
      {"cpu_chain", PlanChain, {"chain"}},
      {"cpu_reduce", PlanReduce, {"reduce_sum", "reduce_max"}},
      {"cpu_softmax", PlanSoftmax, {"softmax", "softmax_grad"}},
      {"cpu_cross_entropy", PlanCrossEntropy, {"cross_entropy"}},
      {"cpu_cross_entropy_grad", PlanCrossEntropyGrad, {"cross_entropy_grad"}},
      {"cpu_cross_entropy_part", PlanCrossEntropyPart, {"cross_entropy_part"}},
      {"cpu_cross_entropy_merge", PlanCrossEntropyMerge, {"cross_entropy_merge"}},
      {"cpu_linear_cross_entropy", PlanLinearCrossEntropy, {"linear_cross_entropy"}},
      {"cpu_norm", PlanNorm, {"layer_norm", "rms_norm"}},
      {"cpu_norm_grad", PlanNormGrad, {"layer_norm_grad", "rms_norm_grad"}},
      {"cpu_rotary", PlanRotary, {"rotary"}},
      {"cpu_attention", PlanAttention, {"attention"}},
      {"cpu_attention_grad", PlanAttentionGrad, {"attention_grad"}},
      {"cpu_attention_merge", PlanAttentionMerge, {"attention_merge"}},
      {"cpu_embedding", PlanEmbedding, {"embedding"}},
      {"cpu_embedding_grad", PlanEmbeddingGrad, {"embedding_grad"}},
      {"cpu_cache_append", PlanCacheAppend, {"cache_append"}},
      {"cpu_shape", PlanShape,
       {"reshape", "transpose", "slice", "pad", "concat", "broadcast", "stack", "unstack",
        "pack", "unpack"}},
      {"cpu_constant", PlanConstant, {"constant"}},
      {"cpu_adamw", PlanAdamw, {"adamw"}},
      {"cpu_sgd", PlanSgd, {"sgd"}},
      {"cpu_dropout", PlanDropout, {"dropout"}},
      {"cpu_sum_squares", PlanSumSquares, {"sum_squares"}},
  };
  return *entries;
}

class TableKernel final : public Kernel {
 public:
  explicit TableKernel(const Entry& entry) : entry_(entry) {}
  absl::string_view name() const override { return entry_.name; }
  absl::StatusOr<PlannedKernel> Plan(const KernelRequest& request) const override {
    for (const char* op : entry_.ops) {
      if (request.op->name() != op) continue;
      absl::StatusOr<PlannedKernel> planned = entry_.plan(request);
      if (planned.ok()) planned->name = entry_.name;
      return planned;
    }
    return Decline("another op");
  }

 private:
  const Entry& entry_;
};

}  // namespace

KernelList CpuKernels() {
  static const auto* const list = [] {
    auto* kernels = new std::vector<const Kernel*>;
    for (const Entry& entry : Entries()) kernels->push_back(new TableKernel(entry));
    kernels->push_back(&ReferenceKernel());
    return kernels;
  }();
  return *list;
}

}  // namespace colossus
