#include "tensor/exec/cuda_device.h"

#include <cuda_runtime.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/native_stream.h"
#include "base/status.h"
#include "tensor/exec/worker_stream.h"
#include "tensor/kernels/cuda/launch.h"

namespace colossus {
namespace {

constexpr int kOldestMajor = 8;  // compute capability of the oldest code in the build
// Stays free beside our arenas: kernels are loaded when first used, and libraries keep tables.
constexpr int64_t kReserveBytes = int64_t{256} << 20;

absl::Status StatusOf(cudaError_t error, absl::string_view call) {
  if (error == cudaSuccess) return absl::OkStatus();
  std::string text = absl::StrCat(std::string(call), ": ", cudaGetErrorName(error), ": ",
                                  cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) return absl::ResourceExhaustedError(text);
  return absl::InternalError(text);
}

// Keeps the first error.
void Update(absl::Status& status, const absl::Status& next) {
  if (status.ok()) status = next;
}

class CudaEvent final : public Event {
 public:
  // After all work of `stream` so far; `before`: that stream's error until then.
  CudaEvent(cudaStream_t stream, absl::Status before) : status_(std::move(before)) {
    Update(status_, StatusOf(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming),
                             "cudaEventCreateWithFlags"));
    if (event_ != nullptr) {
      Update(status_, StatusOf(cudaEventRecord(event_, stream), "cudaEventRecord"));
    }
  }
  ~CudaEvent() override {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  bool Done() const override {
    return event_ == nullptr || cudaEventQuery(event_) != cudaErrorNotReady;
  }
  absl::Status Wait() override {
    absl::Status status = status_;
    if (event_ != nullptr) {
      Update(status, StatusOf(cudaEventSynchronize(event_), "cudaEventSynchronize"));
    }
    return status;
  }
  cudaEvent_t event() const { return event_; }
  const absl::Status& status() const { return status_; }

 private:
  cudaEvent_t event_ = nullptr;
  absl::Status status_;
};

class CudaStream final : public NativeStream {
 public:
  CudaStream() {
    status_ = StatusOf(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                       "cudaStreamCreateWithFlags");
    queue_.stream = stream_;
  }
  ~CudaStream() override {
    if (stream_ == nullptr) return;
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }

  void Launch(std::function<absl::Status()> work) override {
    if (Synchronize().ok()) status_ = work();
  }
  std::shared_ptr<Event> Record() override { return std::make_shared<CudaEvent>(stream_, status_); }
  void WaitFor(std::shared_ptr<Event> event) override {
    const auto* own = dynamic_cast<const CudaEvent*>(event.get());
    if (own == nullptr || own->event() == nullptr) return Update(event->Wait());
    Update(own->status());
    if (status_.ok()) Call(cudaStreamWaitEvent(stream_, own->event(), 0), "cudaStreamWaitEvent");
  }
  absl::Status Synchronize() override {
    if (stream_ != nullptr) {
      Update(StatusOf(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"));
    }
    return status_;
  }

  void* handle() const override { return stream_; }
  bool ok() const override { return status_.ok(); }
  void Update(const absl::Status& status) override {
    if (status_.ok()) status_ = status;
  }
  cudaStream_t stream() const { return stream_; }
  void Call(cudaError_t error, absl::string_view call) { Update(StatusOf(error, call)); }

  void Run(const KernelLaunch& launch) {
    Update(RunKernel(*launch.kernel, {launch.operands, launch.results, launch.workspace, &queue_}));
    if (queue_.failed != nullptr) {
      Update(absl::InternalError(absl::StrCat("kernel ", launch.kernel->name, ": ", queue_.failed,
                                              " failed with status ", queue_.error)));
    }
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) {
      Call(error, absl::StrCat("kernel ", launch.kernel->name, " or work before it"));
    }
  }

 private:
  cudaStream_t stream_ = nullptr;
  CudaQueue queue_;
  absl::Status status_;  // the first error
};

class GpuArena final : public Arena {
 public:
  // `taken` holds the bytes for as long as the arena lives.
  GpuArena(char* base, int64_t bytes, int64_t* taken) : base_(base), bytes_(bytes), taken_(taken) {
    *taken_ += bytes_;
  }
  ~GpuArena() override {
    cudaFree(base_);
    *taken_ -= bytes_;
  }
  char* base() const override { return base_; }
  int64_t bytes() const override { return bytes_; }

 private:
  char* const base_;
  const int64_t bytes_;
  int64_t* const taken_;
};

class PinnedArena final : public Arena {
 public:
  PinnedArena(char* base, int64_t bytes, bool pinned)
      : base_(base), bytes_(bytes), pinned_(pinned) {}
  ~PinnedArena() override {
    if (pinned_)
      cudaFreeHost(base_);
    else
      std::free(base_);
  }
  char* base() const override { return base_; }
  int64_t bytes() const override { return bytes_; }

 private:
  char* const base_;
  const int64_t bytes_;
  const bool pinned_;
};

std::string LockLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "unknown";
  return limit.rlim_cur == RLIM_INFINITY ? "none" : absl::StrCat(limit.rlim_cur, " bytes");
}

class CudaDevice final : public Device {
 public:
  CudaDevice(const CudaDeviceOptions& options, int64_t capacity)
      : options_(options), capacity_(capacity) {}

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  int64_t capacity_bytes() const override { return capacity_; }
  KernelList kernels() const override { return options_.kernels; }
  KernelList host_kernels() const override { return options_.host_kernels; }
  int host_threads() const override { return options_.host_threads; }
  int threads() const override { return 1; }
  bool computes() const override { return true; }
  Clock& clock() override { return clock_; }
  CopiedBytes copied() const override { return copied_; }

  absl::StatusOr<std::unique_ptr<Arena>> NewArena(Tier tier, int64_t bytes) override {
    Use();
    if (tier != Tier::kDevice) return NewHostArena(tier, bytes);
    if (bytes > capacity_ - taken_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("device memory: asked for ", bytes, " bytes, left ", capacity_ - taken_));
    }
    void* base = nullptr;
    RETURN_IF_ERROR(StatusOf(cudaMalloc(&base, Whole(bytes)),
                             absl::StrCat("device memory: cudaMalloc of ", bytes, " bytes")));
    return std::make_unique<GpuArena>(static_cast<char*>(base), bytes, &taken_);
  }

  std::unique_ptr<Stream> NewStream(absl::string_view) override {
    Use();
    return std::make_unique<CudaStream>();
  }

  std::unique_ptr<Stream> NewHostStream(absl::string_view) override {
    return std::make_unique<WorkerStream>(options_.host_threads);
  }

  void Launch(Stream& stream, KernelLaunch launch) override {
    CudaStream& own = Of(stream);
    if (own.ok()) own.Run(launch);
  }
  void CopyIn(Stream& stream, void* device, const void* host, int64_t bytes) override {
    copied_.in += bytes;
    Copy(stream, device, host, bytes, cudaMemcpyHostToDevice);
  }
  void CopyOut(Stream& stream, void* host, const void* device, int64_t bytes) override {
    copied_.out += bytes;
    Copy(stream, host, device, bytes, cudaMemcpyDeviceToHost);
  }
  void CopyWithin(Stream& stream, void* dst, const void* src, int64_t bytes) override {
    Copy(stream, dst, src, bytes, cudaMemcpyDeviceToDevice);
  }
  void Fill(Stream& stream, void* device, unsigned char byte, int64_t bytes) override {
    CudaStream& own = Of(stream);
    if (!own.ok() || bytes == 0) return;
    own.Call(cudaMemsetAsync(device, byte, static_cast<size_t>(bytes), own.stream()),
             "cudaMemsetAsync");
  }

 private:
  static size_t Whole(int64_t bytes) { return static_cast<size_t>(std::max<int64_t>(bytes, 1)); }

  // Calls of this thread go to this device's GPU, which was there when the device was made. What
  // this returns may be an error of earlier work, which the next call returns too.
  void Use() const { static_cast<void>(cudaSetDevice(options_.gpu)); }

  CudaStream& Of(Stream& stream) const {
    Use();
    auto* own = dynamic_cast<CudaStream*>(&stream);
    CHECK(own != nullptr) << "a stream of another device";
    return *own;
  }

  void Copy(Stream& stream, void* dst, const void* src, int64_t bytes, cudaMemcpyKind kind) {
    CudaStream& own = Of(stream);
    if (!own.ok() || bytes == 0) return;
    own.Call(cudaMemcpyAsync(dst, src, static_cast<size_t>(bytes), kind, own.stream()),
             "cudaMemcpyAsync");
  }

  absl::StatusOr<std::unique_ptr<Arena>> NewHostArena(Tier tier, int64_t bytes) {
    void* base = nullptr;
    const cudaError_t error = cudaHostAlloc(&base, Whole(bytes), cudaHostAllocDefault);
    if (error == cudaSuccess) {
      return std::make_unique<PinnedArena>(static_cast<char*>(base), bytes, true);
    }
    cudaGetLastError();  // dealt with here
    if (!warned_) {
      warned_ = true;
      options_.warn(
          absl::StrCat("cannot pin ", bytes, " bytes of host memory (", cudaGetErrorString(error),
                       "; limit of locked memory: ", LockLimit(), "): copies wait for the host"));
    }
    constexpr size_t kPage = 4096;
    base = std::aligned_alloc(kPage, (Whole(bytes) + kPage - 1) / kPage * kPage);
    if (base == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat(std::string(Name(tier)), " memory: the system does not give ", bytes,
                       " bytes; free memory, or take a smaller model, micro-batch or sequence"));
    }
    return std::make_unique<PinnedArena>(static_cast<char*>(base), bytes, false);
  }

  const CudaDeviceOptions options_;
  const int64_t capacity_;
  int64_t taken_ = 0;
  CopiedBytes copied_;
  bool warned_ = false;
  RealClock clock_;
};

absl::Status NoGpu(absl::string_view why) {
  cudaGetLastError();  // dealt with here
  return absl::UnavailableError(
      absl::StrCat("no GPU: ", std::string(why), "; take --device=host, or see docs/cuda.md"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> NewCudaDevice(const CudaDeviceOptions& options) {
  CHECK(!options.kernels.empty()) << "a device needs a list of kernels";
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return NoGpu(absl::StrCat("driver: ", cudaGetErrorString(error)));
  if (options.gpu < 0 || options.gpu >= count) {
    return NoGpu(absl::StrCat("driver: ", count, " GPUs, and none has the number ", options.gpu));
  }
  RETURN_IF_ERROR(StatusOf(cudaSetDevice(options.gpu), "cudaSetDevice"));
  cudaDeviceProp properties;
  RETURN_IF_ERROR(
      StatusOf(cudaGetDeviceProperties(&properties, options.gpu), "cudaGetDeviceProperties"));
  if (properties.major < kOldestMajor) {
    return NoGpu(absl::StrCat(properties.name, " has compute capability ", properties.major, ".",
                              properties.minor, ", and the kernels need ", kOldestMajor,
                              ".0 or newer"));
  }
  size_t free_bytes = 0, all_bytes = 0;
  RETURN_IF_ERROR(StatusOf(cudaMemGetInfo(&free_bytes, &all_bytes), "cudaMemGetInfo"));
  const int64_t usable = std::max<int64_t>(0, static_cast<int64_t>(free_bytes) - kReserveBytes);
  CudaDeviceOptions kept = options;
  if (kept.warn == nullptr) {
    kept.warn = [](absl::string_view text) {
      std::fprintf(stderr, "warning: %.*s\n", static_cast<int>(text.size()), text.data());
    };
  }
  return std::make_unique<CudaDevice>(kept, std::min(kept.memory_bytes, usable));
}

}  // namespace colossus
