#include "trainers/lib/run_device.h"

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <thread>

#include "base/parallel_for.h"
#include "base/status.h"
#include "tensor/exec/cuda_device.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/kernels/cuda/cuda_list.h"

namespace colossus {

int RunThreads(const Options& options) {
  if (options.run.threads > 0) return static_cast<int>(options.run.threads);
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return CPU_COUNT(&cores);
  // More cores than the set can hold.
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

absl::StatusOr<std::unique_ptr<Device>> MakeDevice(const Options& options) {
  const int threads = RunThreads(options);
  SetThreads(threads);
  const int64_t memory = options.run.device_memory > 0 ? options.run.device_memory : INT64_MAX;
  if (options.run.device == "null") {
    return NewNullDevice({.memory_bytes = memory, .threads = threads, .kernels = CpuKernels()});
  }
  if (options.run.device == "cuda") {
    CudaDeviceOptions cuda;
    cuda.memory_bytes = memory;
    cuda.kernels = CudaKernels();
    absl::StatusOr<std::unique_ptr<Device>> device = NewCudaDevice(cuda);
    if (device.ok()) return device;
    return Annotate(device.status(), "run.device = \"cuda\"");
  }
  if (options.run.device == "capped") {
    CappedDeviceOptions capped;
    capped.memory_bytes = memory;
    capped.threads = threads;
    capped.kernels = CpuKernels();
    return NewCappedDevice(capped);
  }
  return NewHostDevice({.memory_bytes = memory, .threads = threads, .kernels = CpuKernels()});
}

}  // namespace colossus
