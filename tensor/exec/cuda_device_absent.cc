// NewCudaDevice of builds without --config=cuda.
#include "absl/status/status.h"
#include "tensor/exec/cuda_device.h"

namespace colossus {

absl::StatusOr<std::unique_ptr<Device>> NewCudaDevice(const CudaDeviceOptions&) {
  return absl::UnavailableError(
      "built without CUDA: bazel run --config=cuda ... builds it in, where there is a CUDA "
      "toolkit (docs/cuda.md); or take --device=host");
}

}  // namespace colossus
