#include "tensor/kernels/cuda/cuda_list.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensor/kernels/cuda/plans.h"

namespace colossus {
namespace {

struct Entry {
  const char* name;
  absl::StatusOr<PlannedKernel> (*plan)(const KernelRequest& request);
  std::vector<const char*> ops;
};

// Best first.
const std::vector<Entry>& Entries() {
  static const auto* const entries = new std::vector<Entry>{
      {"cuda_matmul", cuda::PlanMatmul, {"matmul"}},
      {"cuda_linear_cross_entropy", cuda::PlanLinearCrossEntropy, {"linear_cross_entropy"}},
      {"cuda_attention", cuda::PlanAttention, {"attention"}},
      {"cuda_attention_grad", cuda::PlanAttentionGrad, {"attention_grad"}},
      {"cuda_pointwise", cuda::PlanPointwise,
       {"add", "sub", "mul", "div", "maximum", "minimum", "neg", "exp", "log", "sqrt", "rsqrt",
        "square", "abs", "sin", "cos", "tanh", "sigmoid", "erf", "relu", "gelu", "gelu_tanh",
        "quick_gelu", "silu", "equal", "less", "less_equal", "greater", "greater_equal",
        "logical_and", "logical_or", "logical_not", "select", "scale", "add_scalar", "relu_grad",
        "gelu_grad", "gelu_tanh_grad", "quick_gelu_grad", "silu_grad", "tanh_grad",
        "sigmoid_grad"}},
      {"cuda_convert", cuda::PlanConvert, {"convert"}},
      {"cuda_norm", cuda::PlanNorm, {"layer_norm", "rms_norm"}},
      {"cuda_norm_grad", cuda::PlanNormGrad, {"layer_norm_grad", "rms_norm_grad"}},
      {"cuda_reduce", cuda::PlanReduce, {"reduce_sum", "reduce_max"}},
      {"cuda_softmax", cuda::PlanSoftmax, {"softmax", "softmax_grad"}},
      {"cuda_cross_entropy", cuda::PlanCrossEntropy, {"cross_entropy", "cross_entropy_grad"}},
      {"cuda_rotary", cuda::PlanRotary, {"rotary"}},
      {"cuda_embedding", cuda::PlanEmbedding, {"embedding"}},
      {"cuda_embedding_grad", cuda::PlanEmbeddingGrad, {"embedding_grad"}},
      {"cuda_dropout", cuda::PlanDropout, {"dropout"}},
      {"cuda_topk", cuda::PlanTopk, {"topk", "topk_grad"}},
      {"cuda_shape", cuda::PlanShape,
       {"reshape", "transpose", "slice", "pad", "concat", "broadcast", "stack", "unstack",
        "pack", "unpack"}},
      {"cuda_constant", cuda::PlanConstant, {"constant"}},
      {"cuda_iota", cuda::PlanIota, {"iota"}},
      {"cuda_cache_append", cuda::PlanCacheAppend, {"cache_append"}},
      {"cuda_adamw", cuda::PlanAdamw, {"adamw"}},
      {"cuda_sgd", cuda::PlanSgd, {"sgd"}},
      {"cuda_sum_squares", cuda::PlanSumSquares, {"sum_squares"}},
  };
  return *entries;
}

// All entries behind one name, so that a refusal has one line: about the op asked for.
class CudaKernel final : public Kernel {
 public:
  absl::string_view name() const override { return "cuda"; }
  absl::StatusOr<PlannedKernel> Plan(const KernelRequest& request) const override {
    std::string reasons;
    for (const Entry& entry : Entries()) {
      for (const char* op : entry.ops) {
        if (request.op->name() != op) continue;
        absl::StatusOr<PlannedKernel> planned = entry.plan(request);
        if (planned.ok()) {
          if (planned->name.empty()) planned->name = entry.name;
          return planned;
        }
        absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", entry.name, ": ",
                        std::string(planned.status().message()));
      }
    }
    if (reasons.empty()) reasons = "there is no CUDA kernel for this op";
    return absl::UnimplementedError(absl::StrCat(reasons, "; --device=host computes it"));
  }
};

}  // namespace

KernelList CudaKernels() {
  static const Kernel* const list[] = {new CudaKernel()};
  return list;
}

}  // namespace colossus
