// The CUDA device: one NVIDIA GPU, its memory, streams, copies and kernels.
//
// Purpose: NewCudaDevice makes a Device of kind cuda in builds with --config=cuda, on machines with
// a GPU; anywhere else it says what is missing. Kernels enqueue and return; copies from and to host
// arenas are asynchronous, as those are pinned; streams wait for each other's events on the GPU.
// Work of Stream::Launch runs on the calling thread after everything before it has finished.
// An error that the GPU meets is reported by the next event or Synchronize.
// Thread-safety and ownership: as device.h.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<Device> device, NewCudaDevice({.kernels = CudaKernels()}));
#ifndef COLOSSUS_TENSOR_EXEC_CUDA_DEVICE_H_
#define COLOSSUS_TENSOR_EXEC_CUDA_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensor/exec/device.h"

namespace colossus {

struct CudaDeviceOptions {
  // Of the device tier; at most what is free when the device is made, less what the libraries take.
  int64_t memory_bytes = INT64_MAX;
  int gpu = 0;          // as CUDA numbers them
  KernelList kernels;   // best first. REQUIRES: not empty
  KernelList host_kernels;  // of the CPU, for what a placement runs there; empty: nothing
  int host_threads = 1;     // of each of those
  // Called once if host memory cannot be pinned. Default: a line on stderr.
  std::function<void(absl::string_view)> warn = nullptr;
};

// Error: Unavailable, with the remedy, if this build has no CUDA, the driver gives no GPU of that
// number, or the GPU is too old; else the CUDA call that failed.
absl::StatusOr<std::unique_ptr<Device>> NewCudaDevice(const CudaDeviceOptions& options);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_CUDA_DEVICE_H_
