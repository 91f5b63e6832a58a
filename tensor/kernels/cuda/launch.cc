#include "tensor/kernels/cuda/launch.h"

#include <cstring>

#ifdef COLOSSUS_CUDA
#include <cuda_runtime.h>
#endif

namespace colossus {

void CopyFromHost(void* stream, void* dst, const void* host, int64_t bytes) {
  if (bytes == 0) return;
  if (stream == nullptr) {
    std::memcpy(dst, host, static_cast<size_t>(bytes));
    return;
  }
#ifdef COLOSSUS_CUDA
  CudaQueue* queue = static_cast<CudaQueue*>(stream);
  const cudaError_t error =
      cudaMemcpyAsync(dst, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice,
                      static_cast<cudaStream_t>(queue->stream));
  if (error == cudaSuccess || queue->failed != nullptr) return;
  queue->failed = "cudaMemcpyAsync";
  queue->error = error;
#else
  CHECK(false) << "a queue of a GPU in a build without CUDA";
#endif
}

}  // namespace colossus
