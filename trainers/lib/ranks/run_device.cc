#include "trainers/lib/ranks/run_device.h"

#include <algorithm>
#include <cstdint>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/cores.h"
#include "base/parallel_for.h"
#include "base/status.h"
#include "tensor/exec/cuda_device.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/kernels/cuda/cuda_list.h"

namespace colossus {

namespace {

// `overlap`: messages of other ranks are waited for beside computing.
absl::StatusOr<std::unique_ptr<Device>> NewDevice(const Options& options, int threads,
                                                  KernelList kernels, bool overlap) {
  const int64_t memory = options.run.device_memory > 0 ? options.run.device_memory : INT64_MAX;
  if (options.run.device == "null") {
    NullDeviceOptions null;
    null.memory_bytes = memory;
    null.threads = threads;
    null.kernels = kernels;
    if (options.run.link_gbps > 0) null.copy_bytes_per_second = options.run.link_gbps * 1e9;
    return NewNullDevice(null);
  }
  if (options.run.device == "cuda") {
    CudaDeviceOptions cuda;
    cuda.memory_bytes = memory;
    cuda.kernels = kernels;
    absl::StatusOr<std::unique_ptr<Device>> device = NewCudaDevice(cuda);
    if (device.ok()) return device;
    return Annotate(device.status(), "run.device = \"cuda\"");
  }
  if (options.run.device == "capped") {
    CappedDeviceOptions capped;
    capped.memory_bytes = memory;
    capped.threads = threads;
    capped.kernels = kernels;
    capped.link_bytes_per_second = options.run.link_gbps * 1e9;
    return NewCappedDevice(capped);
  }
  return NewHostDevice(
      {.memory_bytes = memory, .threads = threads, .kernels = kernels, .overlap = overlap});
}

}  // namespace

int RunThreads(const Options& options, int ranks) {
  if (options.run.threads > 0) return static_cast<int>(options.run.threads);
  // A launcher may have bound this process to its share already.
  const int all = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return std::max(1, std::min(Cores(), all / ranks));
}

DeviceRates DeclaredRates(const Options::Run& run) {
  DeviceRates rates;
  if (run.device_tflops > 0) {
    rates.flops_16 = run.device_tflops * 1e12;
    rates.flops_f32 = rates.flops_16 / 2;
  }
  if (run.device_gbps > 0) rates.bytes_per_second = run.device_gbps * 1e9;
  return rates;
}

absl::StatusOr<RankDevice> MakeRankDevice(const Options& options, const MeshPlace& place,
                                          RankGroup group) {
  // Whoever has started several ranks has given this thread its team.
  const int threads = group.size() > 1 ? Threads() : RunThreads(options, place.mesh.ranks());
  SetThreads(threads);
  KernelList kernels = options.run.device == "cuda" ? CudaKernels() : CpuKernels();
  RankDevice own;
  if (group.size() > 1) {
    own.communicators =
        std::make_unique<MeshCommunicators>(place.mesh, *group.world(), place.first);
    own.kernels = std::make_unique<CollectiveKernels>(*own.communicators, kernels);
    kernels = own.kernels->list();
  } else if (place.mesh.ranks() > 1 || place.several_stages()) {  // a stage may have one rank
    CHECK_EQ(options.run.device, "null");
    own.kernels = std::make_unique<CollectiveKernels>(place.mesh, kernels);
    kernels = own.kernels->list();
  }
  ASSIGN_OR_RETURN(own.device,
                   NewDevice(options, threads, kernels, /*overlap=*/place.several_stages()));
  return own;
}

absl::StatusOr<std::unique_ptr<Device>> MakeDevice(const Options& options) {
  ASSIGN_OR_RETURN(RankDevice own, MakeRankDevice(options, MeshPlace(), RankGroup()));
  return std::move(own.device);
}

}  // namespace colossus
