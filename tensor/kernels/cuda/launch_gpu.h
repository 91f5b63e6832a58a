// The GPU's side of launch.h, for .cu files: COLOSSUS_LAUNCHABLE(F) makes LaunchOnGpu<F>.
//
// Thread-safety and ownership: as launch.h. Errors stay in the CUDA run-time until the device asks
// for them after the kernel (tensor/exec/cuda_device.cc), so nothing is checked here.
//
//   COLOSSUS_LAUNCHABLE(NormRow)
#ifndef COLOSSUS_TENSOR_KERNELS_CUDA_LAUNCH_GPU_H_
#define COLOSSUS_TENSOR_KERNELS_CUDA_LAUNCH_GPU_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "tensor/kernels/cuda/launch.h"

namespace colossus {

template <class F>
__global__ void __launch_bounds__(kBlockThreads) RunFunctor(const F functor, int64_t units) {
  constexpr int kLanes = LanesOf<F>();
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x;
  const int64_t apart = static_cast<int64_t>(gridDim.x) * kBlockThreads / kLanes;
  for (int64_t unit = thread / kLanes; unit < units; unit += apart) {
    if constexpr (kLanes == 1) functor(unit);
    else functor(Team<kLanes>(), unit);
  }
}

template <class F>
void LaunchOnGpu(void* stream, const Grid& grid, const F& functor) {
  RunFunctor<F><<<static_cast<unsigned>(grid.blocks), kBlockThreads, 0,
                  static_cast<cudaStream_t>(stream)>>>(functor, grid.units);
}

#define COLOSSUS_LAUNCHABLE(...) \
  template void LaunchOnGpu<__VA_ARGS__>(void* stream, const Grid& grid, const __VA_ARGS__&);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_CUDA_LAUNCH_GPU_H_
