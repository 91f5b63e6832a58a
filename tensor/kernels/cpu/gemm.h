// Gemm: one dense (batched) matrix product by oneDNN.
//
// Purpose: the product under every kernel that multiplies: y[b] = a[b] * w[b] (+ y[b]), with dense
// operands of fixed size, for which oneDNN's bits depend on neither threads nor row splits.
// Thread-safety: one Run at a time per object; it uses the calling rank's threads.
// Ownership: owns library handles; buffers and scratch are the caller's.
//
//   ASSIGN_OR_RETURN(Gemm gemm, Gemm::Create({.m = 64, .n = 32, .k = 128}));
//   gemm.Run(a, w, y, scratch);   // scratch: gemm.scratch_bytes()
#ifndef COLOSSUS_TENSOR_KERNELS_CPU_GEMM_H_
#define COLOSSUS_TENSOR_KERNELS_CPU_GEMM_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "base/dtype.h"

namespace colossus {

struct GemmSpec {
  int64_t batch = 1, m = 0, n = 0, k = 0;  // all >= 1
  bool a_transposed = false;               // a is [batch, k, m], else [batch, m, k]
  bool b_transposed = false;               // b is [batch, n, k], else [batch, k, n]
  DType in = DType::kF32, out = DType::kF32;
  bool accumulate = false;                 // y += the product
};

class Gemm {
 public:
  Gemm() = default;
  // Error: Unimplemented if the library has no fast product of these dtypes on this CPU.
  static absl::StatusOr<Gemm> Create(const GemmSpec& spec);

  // Exact, for the calling thread's number of threads when created.
  int64_t scratch_bytes() const;
  void Run(const void* a, const void* b, void* y, void* scratch) const;

 private:
  struct Handles;
  std::shared_ptr<Handles> handles_;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_CPU_GEMM_H_
