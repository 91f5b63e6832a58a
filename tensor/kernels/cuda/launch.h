// Launch: runs a functor once per unit, on a GPU's queue or, without a queue, on the host.
//
// Purpose: the one way in which kernels of this folder run something. A functor (tensor/kernels/
// functors) is a plain value with either
//   HD void operator()(int64_t unit) const                       one thread per unit, or
//   static constexpr int kLanes;                                 32 or 256
//   HD void operator()(const Team<kLanes>& team, int64_t unit) const
// On the host units run in order, which is how kernels are tested without a GPU. For a GPU every
// functor type is named once in a .cu file of this folder (launch_gpu.h).
// Thread-safety: as the queue. Ownership: the functor is copied; memory it points to must stay
// valid until it ran.
//
//   Launch(args.stream, GridFor<NormRow>(rows), NormRow{...});
#ifndef COLOSSUS_TENSOR_KERNELS_CUDA_LAUNCH_H_
#define COLOSSUS_TENSOR_KERNELS_CUDA_LAUNCH_H_

#include <cstdint>

#include "base/check.h"
#include "tensor/kernels/functors/team.h"

namespace colossus {

// What KernelArgs::stream points to on a CUDA device.
struct CudaQueue {
  void* stream = nullptr;         // cudaStream_t
  const char* failed = nullptr;   // the first call that failed, for the device to report; static
  int error = 0;                  // its status, as that library numbers them
};

// Threads per block, whatever the functor.
inline constexpr int kBlockThreads = 256;
inline constexpr int64_t kMaxBlocks = (int64_t{1} << 31) - 1;

// Blocks of kBlockThreads threads; each thread or team takes units blocks * UnitsPerBlock() apart.
struct Grid {
  int64_t units = 0;
  int lanes = 1;       // threads that work on one unit
  int64_t blocks = 0;  // 0: nothing to launch

  int64_t UnitsPerBlock() const { return kBlockThreads / lanes; }
};

// REQUIRES: lanes is 1, 32 or 256.
inline Grid GridOf(int64_t units, int lanes) {
  Grid grid{.units = units, .lanes = lanes};
  const int64_t per_block = grid.UnitsPerBlock(), blocks = (units + per_block - 1) / per_block;
  grid.blocks = blocks < kMaxBlocks ? blocks : kMaxBlocks;
  return grid;
}

template <class F>
constexpr int LanesOf() {
  if constexpr (requires { F::kLanes; }) return F::kLanes;
  else return 1;
}

template <class F>
Grid GridFor(int64_t units) {
  return GridOf(units, LanesOf<F>());
}

// Enqueues on a cudaStream_t. Defined for the types named in .cu files.
template <class F>
void LaunchOnGpu(void* stream, const Grid& grid, const F& functor);

template <class F>
void LaunchOnHost(const Grid& grid, const F& functor) {
  for (int64_t unit = 0; unit < grid.units; ++unit) {
    if constexpr (LanesOf<F>() == 1) functor(unit);
    else functor(Team<LanesOf<F>()>(), unit);
  }
}

// `stream`: KernelArgs::stream.
template <class F>
void Launch(void* stream, const Grid& grid, const F& functor) {
  if (stream == nullptr) return LaunchOnHost(grid, functor);
#ifdef COLOSSUS_CUDA
  if (grid.blocks > 0) LaunchOnGpu(static_cast<CudaQueue*>(stream)->stream, grid, functor);
#else
  CHECK(false) << "a queue of a GPU in a build without CUDA";
#endif
}

// Launch with the grid that follows from the functor.
template <class F>
void ForEachUnit(void* stream, int64_t units, const F& functor) {
  Launch(stream, GridFor<F>(units), functor);
}

// Bytes of the host's memory, which must stay as they are until they were copied.
void CopyFromHost(void* stream, void* dst, const void* host, int64_t bytes);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_KERNELS_CUDA_LAUNCH_H_
