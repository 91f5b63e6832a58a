#include "collectives/nccl.h"

#include <cuda_runtime.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/native_stream.h"
#include "base/status.h"
#include "collectives/direct.h"
#include "collectives/operation.h"

namespace colossus {
namespace {

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));

absl::Status StatusOf(ncclResult_t result, absl::string_view call) {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(call, ": ", ncclGetErrorString(result)));
}
absl::Status StatusOf(cudaError_t error, absl::string_view call) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(call, ": ", cudaGetErrorString(error)));
}

ncclDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return ncclFloat64;
    case DType::kF32:
      return ncclFloat32;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kF16:
      return ncclFloat16;
    case DType::kI64:
      return ncclInt64;
    case DType::kI32:
      return ncclInt32;
    case DType::kU8:
    case DType::kBool:
      return ncclUint8;
  }
  CHECK(false) << "unknown type";
  return ncclUint8;
}

ncclRedOp_t OpOf(Reduction reduction) {
  return reduction == Reduction::kSum ? ncclSum : reduction == Reduction::kMax ? ncclMax : ncclMin;
}

// Device memory for operations whose parts do not lie one after another; freed in stream order.
class Staging {
 public:
  Staging(int64_t bytes, cudaStream_t stream) : stream_(stream) {
    if (bytes > 0) {
      status_ =
          StatusOf(cudaMallocAsync(&data_, static_cast<size_t>(bytes), stream), "cudaMallocAsync");
    }
  }
  ~Staging() {
    if (data_ != nullptr) cudaFreeAsync(data_, stream_);
  }
  const absl::Status& status() const { return status_; }
  char* data() const { return static_cast<char*>(data_); }

 private:
  const cudaStream_t stream_;
  void* data_ = nullptr;
  absl::Status status_;
};

// Adds operations of one communicator to CUDA streams.
class Enqueuer {
 public:
  Enqueuer(ncclComm_t comm, int rank, int size, cudaStream_t stream)
      : comm_(comm), rank_(rank), size_(size), stream_(stream) {}

  absl::Status Enqueue(const Collective& op) {
    switch (op.kind) {
      case CollectiveKind::kAllReduce:
        return StatusOf(ncclAllReduce(op.src, op.dst, Size(op.count), TypeOf(op.dtype),
                                      OpOf(op.reduction), comm_, stream_),
                        "ncclAllReduce");
      case CollectiveKind::kAllGather:
        return op.rows > 1 ? RowsAllGather(op) : AllGather(op);
      case CollectiveKind::kReduceScatter:
        return op.rows > 1 ? RowsReduceScatter(op) : ReduceScatter(op);
      case CollectiveKind::kAllToAll:
        return op.rows > 1 ? RowsAllToAll(op) : AllToAll(op, op.src, op.dst);
      case CollectiveKind::kBroadcast:
        return StatusOf(ncclBroadcast(op.root == rank_ ? op.src : op.dst, op.dst, Size(op.count),
                                      TypeOf(op.dtype), op.root, comm_, stream_),
                        "ncclBroadcast");
      case CollectiveKind::kExchange:
        return Exchange(op);
      case CollectiveKind::kBarrier:
        return BarrierBySum();
    }
    CHECK(false) << "unknown collective";
    return absl::OkStatus();
  }

 private:
  static size_t Size(int64_t count) { return static_cast<size_t>(count); }

  absl::Status Grouped(const std::function<absl::Status()>& body) {
    RETURN_IF_ERROR(StatusOf(ncclGroupStart(), "ncclGroupStart"));
    const absl::Status inside = body();
    const absl::Status end = StatusOf(ncclGroupEnd(), "ncclGroupEnd");
    return inside.ok() ? end : inside;
  }
  absl::Status Send(const void* src, int64_t count, DType dtype, int to) {
    if (count == 0) return absl::OkStatus();
    return StatusOf(ncclSend(src, Size(count), TypeOf(dtype), to, comm_, stream_), "ncclSend");
  }
  absl::Status Receive(void* dst, int64_t count, DType dtype, int from) {
    if (count == 0) return absl::OkStatus();
    return StatusOf(ncclRecv(dst, Size(count), TypeOf(dtype), from, comm_, stream_), "ncclRecv");
  }
  static const char* At(const void* data, int64_t element, DType dtype) {
    return static_cast<const char*>(data) + element * SizeOf(dtype);
  }
  static char* At(void* data, int64_t element, DType dtype) {
    return static_cast<char*>(data) + element * SizeOf(dtype);
  }

  absl::Status AllGather(const Collective& op) {
    if (op.counts.empty()) {
      return StatusOf(
          ncclAllGather(op.src, op.dst, Size(op.count), TypeOf(op.dtype), comm_, stream_),
          "ncclAllGather");
    }
    return Grouped([&] {
      for (int p = 0; p < size_; ++p) {
        const PartRange part = PartOf(op, p);
        RETURN_IF_ERROR(Send(op.src, PartOf(op, rank_).count, op.dtype, p));
        RETURN_IF_ERROR(Receive(At(op.dst, part.first, op.dtype), part.count, op.dtype, p));
      }
      return absl::OkStatus();
    });
  }

  absl::Status ReduceScatter(const Collective& op) {
    if (op.counts.empty()) {
      return StatusOf(ncclReduceScatter(op.src, op.dst, Size(op.count), TypeOf(op.dtype),
                                        OpOf(op.reduction), comm_, stream_),
                      "ncclReduceScatter");
    }
    return Grouped([&] {
      for (int p = 0; p < size_; ++p) {
        const PartRange part = PartOf(op, p);
        if (part.count == 0) continue;
        RETURN_IF_ERROR(StatusOf(
            ncclReduce(At(op.src, part.first, op.dtype), p == rank_ ? op.dst : nullptr,
                       Size(part.count), TypeOf(op.dtype), OpOf(op.reduction), p, comm_, stream_),
            "ncclReduce"));
      }
      return absl::OkStatus();
    });
  }

  absl::Status AllToAll(const Collective& op, const void* src, void* dst) {
    return Grouped([&] {
      for (int p = 0; p < size_; ++p) {
        const PartRange sent = PartOf(op, p), received = ReceivedPartOf(op, p);
        RETURN_IF_ERROR(
            Send(At(src, sent.first * op.rows, op.dtype), sent.count * op.rows, op.dtype, p));
        RETURN_IF_ERROR(Receive(At(dst, received.first * op.rows, op.dtype),
                                received.count * op.rows, op.dtype, p));
      }
      return absl::OkStatus();
    });
  }

  // Between `parts`, [parts, rows, count], and `rows`, [rows, parts, count].
  absl::Status Transpose(const Collective& op, const void* from, void* to, bool to_rows) {
    const size_t width = Size(op.count * SizeOf(op.dtype));
    if (width == 0) return absl::OkStatus();
    for (int p = 0; p < size_; ++p) {
      const int64_t in_parts = p * op.rows * op.count, in_rows = p * op.count;
      const size_t wide = width * Size(size_);
      RETURN_IF_ERROR(StatusOf(
          cudaMemcpy2DAsync(At(to, to_rows ? in_rows : in_parts, op.dtype), to_rows ? wide : width,
                            At(from, to_rows ? in_parts : in_rows, op.dtype),
                            to_rows ? width : wide, width, Size(op.rows), cudaMemcpyDeviceToDevice,
                            stream_),
          "cudaMemcpy2DAsync"));
    }
    return absl::OkStatus();
  }
  int64_t WholeBytes(const Collective& op) const {
    return size_ * op.rows * op.count * SizeOf(op.dtype);
  }

  absl::Status RowsAllGather(const Collective& op) {
    const Staging staging(WholeBytes(op), stream_);
    RETURN_IF_ERROR(staging.status());
    RETURN_IF_ERROR(StatusOf(ncclAllGather(op.src, staging.data(), Size(op.rows * op.count),
                                           TypeOf(op.dtype), comm_, stream_),
                             "ncclAllGather"));
    return Transpose(op, staging.data(), op.dst, true);
  }
  absl::Status RowsReduceScatter(const Collective& op) {
    const Staging staging(WholeBytes(op), stream_);
    RETURN_IF_ERROR(staging.status());
    RETURN_IF_ERROR(Transpose(op, op.src, staging.data(), false));
    return StatusOf(ncclReduceScatter(staging.data(), op.dst, Size(op.rows * op.count),
                                      TypeOf(op.dtype), OpOf(op.reduction), comm_, stream_),
                    "ncclReduceScatter");
  }
  absl::Status RowsAllToAll(const Collective& op) {
    const Staging staging(WholeBytes(op), stream_);
    RETURN_IF_ERROR(staging.status());
    RETURN_IF_ERROR(AllToAll(op, op.src, staging.data()));
    return Transpose(op, staging.data(), op.dst, true);
  }

  absl::Status Exchange(const Collective& op) {
    return Grouped([&] {
      if (op.to >= 0) RETURN_IF_ERROR(Send(op.src, op.count, op.dtype, op.to));
      if (op.from >= 0) RETURN_IF_ERROR(Receive(op.dst, op.receive_count, op.dtype, op.from));
      return absl::OkStatus();
    });
  }

  absl::Status BarrierBySum() {
    const Staging word(4, stream_);
    RETURN_IF_ERROR(word.status());
    RETURN_IF_ERROR(StatusOf(cudaMemsetAsync(word.data(), 0, 4, stream_), "cudaMemsetAsync"));
    return StatusOf(ncclAllReduce(word.data(), word.data(), 1, ncclInt32, ncclSum, comm_, stream_),
                    "ncclAllReduce");
  }

  const ncclComm_t comm_;
  const int rank_, size_;
  const cudaStream_t stream_;
};

class NcclCommunicator final : public Communicator {
 public:
  // `host`: of the same ranks in the same order; `owned`: it, if it goes with this communicator.
  NcclCommunicator(ncclComm_t comm, cudaStream_t stream, Communicator& host,
                   std::unique_ptr<Communicator> owned, bool check)
      : comm_(comm), stream_(stream), host_(host), owned_(std::move(owned)), check_(check) {}
  ~NcclCommunicator() override {
    if (!host_.WorldStatus().ok()) AbortComm();  // to destroy would wait for ranks that never come
    if (!aborted_.exchange(true)) ncclCommDestroy(comm_);
    cudaStreamDestroy(stream_);
  }

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }

  absl::Status Run(const Collective& operation) override {
    RETURN_IF_ERROR(Add(operation, stream_));
    // Not cudaStreamSynchronize: a lost rank would make it wait for ever.
    while (true) {
      // First, as an operation that is aborted also finishes.
      const cudaError_t done = cudaStreamQuery(stream_);
      RETURN_IF_ERROR(Look(operation));
      if (done != cudaErrorNotReady) return AbortOn(StatusOf(done, "cudaStreamQuery"));
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  void Launch(Stream& stream, Collective operation) override {
    auto* native = dynamic_cast<NativeStream*>(&stream);
    if (native == nullptr) return Communicator::Launch(stream, std::move(operation));
    if (native->ok()) native->Update(Add(operation, static_cast<cudaStream_t>(native->handle())));
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Subgroup(const std::vector<int>& members,
                                                         absl::string_view name) override {
    ASSIGN_OR_RETURN(std::unique_ptr<Communicator> host, host_.Subgroup(members, name));
    return New(std::move(host), check_);
  }

  void Abort(const absl::Status& why) override {
    host_.Abort(why);
    AbortComm();
  }
  absl::Status WorldStatus() const override { return host_.WorldStatus(); }

  CollectiveCounts counts() const override {
    std::lock_guard<std::mutex> lock(counts_mutex_);
    return counts_;
  }
  void SetWhere(int64_t step, absl::string_view phase) override { host_.SetWhere(step, phase); }
  void Beat() override { host_.Beat(); }
  bool waits() const override { return host_.waits(); }

  // With an id that rank 0 makes and sends to the others by `host`.
  static absl::StatusOr<std::unique_ptr<Communicator>> New(std::unique_ptr<Communicator> host,
                                                           bool check) {
    NcclId id;
    if (host->rank() == 0) {
      ASSIGN_OR_RETURN(id, NewNcclId());
    }
    RETURN_IF_ERROR(host->Run({.kind = CollectiveKind::kBroadcast,
                               .dtype = DType::kU8,
                               .src = &id,
                               .dst = &id,
                               .count = sizeof(id),
                               .site = "NCCL's id"}));
    Communicator& kept = *host;
    return New(id, kept, std::move(host), check);
  }

  static absl::StatusOr<std::unique_ptr<Communicator>> New(const NcclId& id, Communicator& host,
                                                           std::unique_ptr<Communicator> owned,
                                                           bool check) {
    ncclUniqueId unique;
    std::memcpy(&unique, id.bytes, sizeof(unique));
    ncclComm_t comm = nullptr;
    cudaStream_t stream = nullptr;
    RETURN_IF_ERROR(StatusOf(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                             "cudaStreamCreateWithFlags"));
    const absl::Status made =
        StatusOf(ncclCommInitRank(&comm, host.size(), unique, host.rank()), "ncclCommInitRank");
    if (!made.ok()) {
      cudaStreamDestroy(stream);
      return made;
    }
    return std::make_unique<NcclCommunicator>(comm, stream, host, std::move(owned), check);
  }

 private:
  absl::Status Add(const Collective& operation, cudaStream_t stream) {
    RETURN_IF_ERROR(Look(operation));
    RETURN_IF_ERROR(AbortOn(Validate(operation, rank(), size())));
    if (check_) RETURN_IF_ERROR(Check(operation));
    RETURN_IF_ERROR(AbortOn(Enqueue(operation, stream)));
    std::lock_guard<std::mutex> lock(counts_mutex_);
    counts_ += DirectCounts(operation, rank(), size());
    return absl::OkStatus();
  }
  absl::Status Enqueue(const Collective& operation, cudaStream_t stream) {
    std::lock_guard<std::timed_mutex> lock(comm_mutex_);
    if (aborted_.load()) return absl::AbortedError("the communicator has been aborted");
    return Enqueuer(comm_, rank(), size(), stream).Enqueue(operation);
  }

  // Whether other ranks will come: the failure of the world, or NCCL's, which ends the world.
  absl::Status Look(const Collective& operation) {
    if (absl::Status world = host_.WorldStatus(); !world.ok()) {
      AbortComm();
      return world;
    }
    return AbortOn(AsyncError(operation));
  }
  absl::Status AsyncError(const Collective& operation) {
    std::lock_guard<std::timed_mutex> lock(comm_mutex_);
    if (aborted_.load()) return absl::AbortedError("the communicator has been aborted");
    ncclResult_t result = ncclSuccess;
    RETURN_IF_ERROR(StatusOf(ncclCommGetAsyncError(comm_, &result), "ncclCommGetAsyncError"));
    return StatusOf(result, Describe(operation));
  }

  // An error of one rank ends all.
  absl::Status AbortOn(const absl::Status& status) {
    if (!status.ok()) Abort(status);
    return status;
  }
  // Once, and beside no other call, unless that one hangs: it ends only by this.
  void AbortComm() {
    std::unique_lock<std::timed_mutex> lock(comm_mutex_, std::chrono::seconds(2));
    if (!aborted_.exchange(true)) ncclCommAbort(comm_);
  }

  // The host compares call sites: what all ranks should give alike is put there.
  absl::Status Check(const Collective& operation) {
    Collective alike;
    alike.kind = operation.kind;
    alike.site = operation.site;
    if (operation.kind != CollectiveKind::kExchange) {
      alike = operation;
      if (operation.kind == CollectiveKind::kAllToAll) alike.receive_counts = alike.counts = {};
    }
    return Barrier(host_, Describe(alike));
  }

  const ncclComm_t comm_;
  const cudaStream_t stream_;  // of Run
  Communicator& host_;
  const std::unique_ptr<Communicator> owned_;
  const bool check_;
  std::timed_mutex comm_mutex_;       // held around NCCL's calls with comm_
  std::atomic<bool> aborted_{false};  // comm_ is gone
  mutable std::mutex counts_mutex_;
  CollectiveCounts counts_;  // guarded by counts_mutex_
};

}  // namespace

absl::StatusOr<NcclId> NewNcclId() {
  ncclUniqueId unique;
  RETURN_IF_ERROR(StatusOf(ncclGetUniqueId(&unique), "ncclGetUniqueId"));
  NcclId id;
  std::memcpy(id.bytes, &unique, sizeof(id.bytes));
  return id;
}

absl::StatusOr<std::unique_ptr<Communicator>> NewNcclCommunicator(const NcclId& id,
                                                                  Communicator& host, bool check) {
  return NcclCommunicator::New(id, host, nullptr, check);
}

}  // namespace colossus
