// The CPU kernels' planning functions, one per op or family; cpu_list.cc puts them in order.
//
// Purpose: what the files of this folder share; internal to it.
// Thread-safety: pure functions. Ownership: as kernel.h.
//
// A planning function gets requests of the op it is listed for only, validated by the op, and
// returns Unimplemented with the reason when it declines. The list sets the planned kernel's name.
#ifndef COLOSSUS_TENSOR_KERNELS_CPU_PLANS_H_
#define COLOSSUS_TENSOR_KERNELS_CPU_PLANS_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/parallel_for.h"
#include "tensor/kernels/kernel.h"

namespace colossus {

using PlanFunction = absl::StatusOr<PlannedKernel> (*)(const KernelRequest& request);

absl::StatusOr<PlannedKernel> PlanMatmul(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanConvert(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanPointwise(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanChain(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanReduce(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanSoftmax(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanCrossEntropy(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanCrossEntropyGrad(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanCrossEntropyPart(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanCrossEntropyMerge(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanLinearCrossEntropy(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanNorm(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanNormGrad(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanRotary(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanAttention(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanAttentionGrad(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanAttentionMerge(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanEmbedding(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanEmbeddingGrad(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanCacheAppend(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanConstant(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanShape(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanAdamw(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanSgd(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanDropout(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanSumSquares(const KernelRequest& request);

inline absl::Status Decline(absl::string_view reason) { return absl::UnimplementedError(reason); }

// f32, bf16 or f16: what loops that compute in f32 read and write.
inline bool IsSmallFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

// Workspace parts begin at multiples of 64 bytes.
inline int64_t Aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// The same for parts counted in floats.
inline int64_t PaddedFloats(int64_t n) { return (n + 15) / 16 * 16; }

// Splits [0, n) into at most `slots` contiguous ranges of whole `grain`s and calls
// fn(slot, begin, end): for loops that need workspace per thread.
template <class Fn>
void ParallelSlots(int64_t slots, int64_t n, int64_t grain, Fn fn) {
  const int64_t units = (n + grain - 1) / grain, used = std::min<int64_t>(slots, units);
  ParallelFor(used, 1, [&](int64_t first, int64_t last) {
    for (int64_t slot = first; slot < last; ++slot) {
      fn(slot, units * slot / used * grain, std::min(n, units * (slot + 1) / used * grain));
    }
  });
}

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_CPU_PLANS_H_
