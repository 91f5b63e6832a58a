// KernelCase: one comparison of a CPU kernel with the reference kernel.
//
// Purpose: tables of cases in the tests beside the kernels. Check plans the case for 1, 2 and 3
// threads, wants a kernel other than the reference, compares with the reference, and wants the
// same bits for every number of threads.
// Thread-safety: as the calling thread's SetThreads. Ownership: values.
//
//   Check({.op = "gelu", .operands = {{DType::kBF16, {3, 65}}}});
#ifndef COLOSSUS_TENSOR_KERNELS_CPU_KERNEL_CASE_H_
#define COLOSSUS_TENSOR_KERNELS_CPU_KERNEL_CASE_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tensor/graph/attributes.h"
#include "tensor/graph/types.h"
#include "tensor/host_tensor.h"

namespace colossus {

struct KernelCase {
  std::string op;
  Attributes attributes = {};
  Types operands = {};
  // Integer operands are uniform in [0, this bound), by operand index; default 2.
  std::map<int, int64_t> bounds = {};
  // Operands that are not random, by index.
  std::map<int, std::vector<double>> values = {};
  double scale = 1;           // of the normally distributed float operands
  // Of each result, relative to its largest magnitude: the roundings of the result's dtype and of
  // f32 arithmetic, the latter times this.
  double roundings = 16;
  bool declines = false;      // the reference kernel is wanted
  // Sees the operands before they are used.
  std::function<void(std::vector<HostTensor>&)> prepare = nullptr;
};

void Check(const KernelCase& kernel_case);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_CPU_KERNEL_CASE_H_
