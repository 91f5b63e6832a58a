// CpuKernels: the kernels of the host CPU.
//
// Purpose: oneDNN for products, own loops for the rest (compiled for three instruction sets,
// isa.h), the reference kernel last. Bits do not depend on the number of threads: work is split
// over rows, or into blocks of a fixed size whose results are combined in order.
// Thread-safety and ownership: as kernel.h; the list lives for ever.
//
//   ASSIGN_OR_RETURN(PlannedKernel k, PlanKernel(CpuKernels(), request));
#ifndef COLOSSUS_TENSOR_KERNELS_CPU_CPU_LIST_H_
#define COLOSSUS_TENSOR_KERNELS_CPU_CPU_LIST_H_

#include "tensor/kernels/kernel.h"

namespace colossus {

// Best first, ReferenceKernel() last.
KernelList CpuKernels();

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_CPU_CPU_LIST_H_
