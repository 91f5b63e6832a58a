// PackedProduct: a dense (batched) matrix product in f32 by the own tile loops.
//
// Purpose: what Gemm uses where the library has no product whose bits are independent of the
// number of threads (CPUs without AVX-512), or none of these dtypes. Operands of 16 bits are
// widened while they are packed. Sums run over k in order, in blocks of a constant size.
// Thread-safety: Run is const and reentrant with scratch of its own; it uses the calling rank's
// threads. Ownership: a value; buffers and scratch are the caller's.
//
//   PackedProduct product({.m = 64, .n = 32, .k = 128, .threads = 2});
//   product.Run(a, w, y, scratch);   // scratch: product.scratch_bytes(), 64-byte aligned
#ifndef COLOSSUS_TENSOR_KERNELS_CPU_PACKED_PRODUCT_H_
#define COLOSSUS_TENSOR_KERNELS_CPU_PACKED_PRODUCT_H_

#include <cstdint>

#include "tensor/kernels/cpu/gemm_spec.h"

namespace colossus {

class PackedProduct {
 public:
  PackedProduct() = default;
  explicit PackedProduct(const GemmSpec& spec);

  int64_t scratch_bytes() const { return slots_ * SlotFloats() * 4; }
  void Run(const void* a, const void* b, void* y, void* scratch) const;

 private:
  struct Block;

  int64_t RowFloats() const;  // packed rows of a
  int64_t RowStride(int64_t k) const;
  int64_t TermStride() const;
  int64_t SlotFloats() const;
  void RunFewRows(const Block& block, float* rows, float* buffer, float* sums) const;
  void RunBlock(const Block& block, float* slot) const;
  void PackRows(const void* a, int64_t i0, int64_t m, int64_t p0, int64_t k, float* packed) const;
  void PackPanels(const void* b, int64_t j0, int64_t n, int64_t p0, int64_t k, float* packed,
                  float* buffer) const;
  void StoreBlock(const Block& block, const float* sums) const;

  GemmSpec spec_;
  int64_t slots_ = 1, rows_ = 0, columns_ = 0;  // rows_, columns_: of a block of y
  int64_t panel_ = 16;  // columns of a packed panel of b
  bool few_ = false;    // rows: b is not packed
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_CPU_PACKED_PRODUCT_H_
