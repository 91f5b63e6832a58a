// Product: one dense product of the CUDA kernels, by cuBLASLt or by a functor.
//
// Purpose: what matmul and linear_cross_entropy multiply with. With a GPU cuBLASLt chooses its
// algorithm when the product is made, never when it runs; without one, or for what it lacks (f64
// and odd combinations of dtypes), the functor GemmElement computes the same product.
// Thread-safety: Run is const; one at a time per object. Ownership: shares library descriptors.
//
//   const Product product = Product::Create({.m = 64, .n = 32, .k = 128});
//   product.Run(args.stream, a, b, y, scratch);   // scratch: product.scratch_bytes()
#ifndef COLOSSUS_TENSOR_KERNELS_CUDA_PRODUCT_H_
#define COLOSSUS_TENSOR_KERNELS_CUDA_PRODUCT_H_

#include <cstdint>
#include <memory>

#include "tensor/kernels/functors/gemm.h"

namespace colossus::cuda {

class CublasLtProduct;

// Whether cuBLASLt multiplies `in` into `out` with sums in f32.
bool IsNativeProduct(DType in, DType out);

class Product {
 public:
  Product() = default;
  // Needs no GPU, but uses the current one. REQUIRES: all extents >= 1.
  static Product Create(const DenseProduct& spec);

  bool by_library() const { return library_ != nullptr; }
  int64_t scratch_bytes() const;
  // `stream`: KernelArgs::stream. Operands begin at multiples of 64 bytes.
  void Run(void* stream, const void* a, const void* b, void* y, void* scratch) const;

 private:
  DenseProduct spec_;
  std::shared_ptr<const CublasLtProduct> library_;
};

}  // namespace colossus::cuda

#endif  // COLOSSUS_TENSOR_KERNELS_CUDA_PRODUCT_H_
