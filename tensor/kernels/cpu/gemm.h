// Gemm: one dense (batched) matrix product, by oneDNN or by the own loops (PackedProduct).
//
// Purpose: the product under every kernel that multiplies: y[b] = a[b] * w[b] (+ y[b]), with dense
// operands of fixed size. oneDNN's is used where it is its block product ("brgemm", on CPUs with
// AVX-512), whose bits depend on neither threads nor row splits; its others' bits do.
// Thread-safety: one Run at a time per object; it uses the calling rank's threads, of which there
// are as many as the spec says.
// Ownership: may own library handles; buffers and scratch are the caller's.
//
//   Gemm gemm = Gemm::Create({.m = 64, .n = 32, .k = 128});
//   gemm.Run(a, w, y, scratch);   // scratch: gemm.scratch_bytes()
#ifndef COLOSSUS_TENSOR_KERNELS_CPU_GEMM_H_
#define COLOSSUS_TENSOR_KERNELS_CPU_GEMM_H_

#include <cstdint>
#include <memory>

#include "tensor/kernels/cpu/gemm_spec.h"
#include "tensor/kernels/cpu/packed_product.h"

namespace colossus {

class Gemm {
 public:
  Gemm() = default;
  // `in` and `out`: f32, bf16 or f16; accumulate needs f32 out.
  static Gemm Create(const GemmSpec& spec);

  // Exact, for the spec's number of threads.
  int64_t scratch_bytes() const;
  void Run(const void* a, const void* b, void* y, void* scratch) const;

 private:
  struct Handles;
  static std::shared_ptr<Handles> MakeHandles(const GemmSpec& spec);

  std::shared_ptr<Handles> handles_;  // nullptr: packed_
  PackedProduct packed_;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_CPU_GEMM_H_
