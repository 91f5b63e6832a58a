// attention_merge: rows of f32.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/kernels/cpu/plans.h"
#include "tensor/kernels/cpu/row_buffer.h"
#include "tensor/kernels/cpu/row_loops.h"

namespace colossus {
namespace {

struct MergePlan {
  int64_t b = 0, s = 0, h = 0, e = 0, slots = 1;
  DType second = DType::kF32;  // of out_b

  void Row(const KernelArgs& args, int64_t row, float* buffer) const {
    // row = (batch * s + query) * h + head
    const int64_t head = row % h, query = row / h % s, batch = row / h / s;
    const int64_t at = (batch * h + head) * s + query;
    const float a = static_cast<const float*>(args.operands[1])[at];
    const float c = static_cast<const float*>(args.operands[3])[at];
    float lse = std::max(a, c), factor_a = 0, factor_c = 0;
    if (lse != -std::numeric_limits<float>::infinity()) {
      lse += std::log(std::exp(a - lse) + std::exp(c - lse));
      factor_a = std::exp(a - lse);
      factor_c = std::exp(c - lse);
    }
    static_cast<float*>(args.results[1])[at] = lse;
    Rows().mix(static_cast<const float*>(args.operands[0]) + row * e, factor_a,
               RowIn(second, args.operands[2], row, e, buffer), factor_c,
               static_cast<float*>(args.results[0]) + row * e, e);
  }
};

}  // namespace

absl::StatusOr<PlannedKernel> PlanAttentionMerge(const KernelRequest& request) {
  const Type& out = request.operands[0];
  MergePlan plan;
  plan.second = request.operands[2].dtype;
  if (out.dtype != DType::kF32 || !IsSmallFloat(plan.second))
    return Decline("computes in f32 only");
  plan.b = out.dims[0], plan.s = out.dims[1], plan.h = out.dims[2], plan.e = out.dims[3];
  plan.slots = request.threads;
  PlannedKernel planned;
  planned.workspace_bytes = plan.slots * PaddedFloats(plan.e) * static_cast<int64_t>(sizeof(float));
  planned.run = [plan](const KernelArgs& args) {
    const int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, plan.e));
    ParallelSlots(
        plan.slots, plan.b * plan.s * plan.h, grain, [&](int64_t slot, int64_t begin, int64_t end) {
          float* buffer = static_cast<float*>(args.workspace) + slot * PaddedFloats(plan.e);
          for (int64_t row = begin; row < end; ++row) plan.Row(args, row, buffer);
        });
  };
  return planned;
}

}  // namespace colossus
