// The CUDA kernels' planning functions, one per op or family; cuda_list.cc puts them in order.
//
// Purpose: what the files of this folder share; internal to it. Nothing here needs a GPU: planned
// kernels enqueue where KernelArgs::stream says, or run on the host without one.
// Thread-safety: pure functions. Ownership: as kernel.h.
//
// A planning function gets requests of the op it is listed for only, validated by the op, and
// returns Unimplemented with the reason when it declines.
#ifndef COLOSSUS_TENSOR_KERNELS_CUDA_PLANS_H_
#define COLOSSUS_TENSOR_KERNELS_CUDA_PLANS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensor/kernels/functors/element.h"
#include "tensor/kernels/functors/move.h"
#include "tensor/kernels/kernel.h"

namespace colossus::cuda {

absl::StatusOr<PlannedKernel> PlanMatmul(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanLinearCrossEntropy(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanPointwise(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanConvert(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanReduce(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanSumSquares(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanShape(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanConstant(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanIota(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanCacheAppend(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanNorm(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanNormGrad(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanSoftmax(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanCrossEntropy(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanRotary(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanEmbedding(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanEmbeddingGrad(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanDropout(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanTopk(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanAttention(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanAttentionGrad(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanAdamw(const KernelRequest& request);
absl::StatusOr<PlannedKernel> PlanSgd(const KernelRequest& request);

inline absl::Status Decline(absl::string_view reason) { return absl::UnimplementedError(reason); }

inline bool IsSmallFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

// Unimplemented if a float operand or result is f64: the functors of model ops compute in f32.
absl::Status CheckSmallFloats(const KernelRequest& request);

// Parts of a workspace begin at multiples of 64 bytes.
class Workspace {
 public:
  // The offset of a new part.
  int64_t Take(int64_t bytes) {
    const int64_t at = bytes_;
    bytes_ += (bytes + 63) / 64 * 64;
    return at;
  }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

template <class T>
T* WorkspaceAt(const KernelArgs& args, int64_t offset) {
  return reinterpret_cast<T*>(static_cast<char*>(args.workspace) + offset);
}

// The dtypes of a call, which outlive the request. Index -1: absent.
struct CallDTypes {
  std::vector<DType> operands, results;
  explicit CallDTypes(const KernelRequest& request);
  Source x(const KernelArgs& args, int i) const {
    return i < 0 ? Source{} : Source{args.operands[i], operands[i]};
  }
  Target y(const KernelArgs& args, int i) const {
    return i < 0 ? Target{} : Target{args.results[i], results[i]};
  }
};

// Neighbouring dims that every value walks through as one become one; extents of 1 go. Error:
// Unimplemented if more than kMaxRank are left.
template <int kValues>
absl::StatusOr<StridedIndex<kValues>> MergeDims(const Dims& dims,
                                                const std::vector<Dims>& strides) {
  StridedIndex<kValues> index;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    const int last = index.rank - 1;
    bool joins = last >= 0;
    for (int v = 0; v < kValues && joins; ++v) {
      joins = index.strides[v][last] == strides[v][d] * dims[d];
    }
    if (!joins && index.rank == kMaxRank) {
      return Decline("more than 8 dims that cannot be merged");
    }
    const int at = joins ? last : index.rank++;
    index.dims[at] = joins ? index.dims[at] * dims[d] : dims[d];
    for (int v = 0; v < kValues; ++v) index.strides[v][at] = strides[v][d];
  }
  return index;
}

// A copy of `elements` with conversion between small floats, or bit for bit.
struct Move {
  StridedMove move;  // without memory
  int64_t elements = 0;
  void Run(void* stream, const void* src, void* dst) const;
};
// Strides in elements; a source stride of 0 repeats. `src_first`, `dst_first`: element 0.
absl::StatusOr<Move> PlanMove(const Dims& dims, const Dims& src_strides, DType src,
                              const Dims& dst_strides, DType dst, int64_t src_first = 0,
                              int64_t dst_first = 0);

}  // namespace colossus::cuda

#endif  // COLOSSUS_TENSOR_KERNELS_CUDA_PLANS_H_
