// CublasLtProduct: one dense product by cuBLASLt. Part of --config=cuda builds only.
//
// bf16 and f16 with sums in f32; f32 without TF32. Split sums are added by a second pass, not by
// atomics, so that the same run gives the same bits on one kind of GPU.
// Thread-safety: Run is const; one at a time per object. Ownership: owns library descriptors; the
// library's handle lives as long as the process, one per GPU.
//
//   std::shared_ptr<const CublasLtProduct> product = CublasLtProduct::Create(spec);
#ifndef COLOSSUS_TENSOR_KERNELS_CUDA_CUBLASLT_PRODUCT_H_
#define COLOSSUS_TENSOR_KERNELS_CUDA_CUBLASLT_PRODUCT_H_

#include <cstdint>
#include <memory>

#include "tensor/kernels/cuda/launch.h"
#include "tensor/kernels/functors/gemm.h"

namespace colossus::cuda {

class CublasLtProduct {
 public:
  // For the calling thread's current GPU. nullptr: there is none, or the library has no algorithm.
  // REQUIRES: IsNativeProduct(spec.in, spec.out).
  static std::shared_ptr<const CublasLtProduct> Create(const DenseProduct& spec);
  ~CublasLtProduct();

  int64_t scratch_bytes() const;
  // A call that fails is noted in the queue.
  void Run(CudaQueue& queue, const void* a, const void* b, void* y, void* scratch) const;

 private:
  struct Parts;
  explicit CublasLtProduct(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace colossus::cuda

#endif  // COLOSSUS_TENSOR_KERNELS_CUDA_CUBLASLT_PRODUCT_H_
