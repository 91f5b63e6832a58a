#include "tensor/kernels/cuda/product.h"

#include "tensor/kernels/cuda/launch.h"

#ifdef COLOSSUS_CUDA
#include "tensor/kernels/cuda/cublaslt_product.h"
#endif

namespace colossus::cuda {

bool IsNativeProduct(DType in, DType out) {
  if (in == DType::kF32) return out == DType::kF32;
  if (in != DType::kBF16 && in != DType::kF16) return false;
  return out == in || out == DType::kF32;
}

Product Product::Create(const DenseProduct& spec) {
  Product product;
  product.spec_ = spec;
#ifdef COLOSSUS_CUDA
  if (IsNativeProduct(spec.in, spec.out)) product.library_ = CublasLtProduct::Create(spec);
#endif
  return product;
}

int64_t Product::scratch_bytes() const {
#ifdef COLOSSUS_CUDA
  if (library_ != nullptr) return library_->scratch_bytes();
#endif
  return 0;
}

void Product::Run(void* stream, const void* a, const void* b, void* y,
                  [[maybe_unused]] void* scratch) const {
#ifdef COLOSSUS_CUDA
  if (library_ != nullptr && stream != nullptr) {
    return library_->Run(*static_cast<CudaQueue*>(stream), a, b, y, scratch);
  }
#endif
  const int64_t elements = spec_.batch * spec_.m * spec_.n;
  const ColumnMajorGemm gemm = ToColumnMajor(spec_);
  const Source first{b, spec_.in}, second{a, spec_.in};
  const Target result{y, spec_.out};
  if (spec_.in == DType::kF64 || spec_.out == DType::kF64) {
    ForEachUnit(stream, elements,
                GemmElement<double>{gemm, first, second, result, spec_.accumulate});
  } else {
    ForEachUnit(stream, elements,
                GemmElement<float>{gemm, first, second, result, spec_.accumulate});
  }
}

}  // namespace colossus::cuda
