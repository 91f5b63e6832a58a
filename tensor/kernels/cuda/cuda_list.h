// The kernels of CUDA devices.
//
// Purpose: the list that a CUDA device runs, best first. There is no reference kernel at its end:
// what no kernel of the list computes is refused when planned, with the op's name and the reason.
// Without a queue (KernelArgs::stream) the same kernels run on the host, unit by unit, which is how
// they are tested where there is no GPU.
// Thread-safety: stateless. Ownership: lives forever.
//
//   ASSIGN_OR_RETURN(PlannedKernel k, PlanKernel(CudaKernels(), request));
#ifndef COLOSSUS_TENSOR_KERNELS_CUDA_CUDA_LIST_H_
#define COLOSSUS_TENSOR_KERNELS_CUDA_CUDA_LIST_H_

#include "tensor/kernels/kernel.h"

namespace colossus {

KernelList CudaKernels();

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_CUDA_CUDA_LIST_H_
