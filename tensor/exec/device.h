// Device: where a Program runs: memory by tier, streams, copies, kernels, a clock.
//
// Purpose: one interface for
//   host    plain memory; work runs at once on the calling thread
//   capped  behaves like a GPU on a CPU: a mapping of its own of the declared size, asynchronous
//           streams, every byte in and out counted
//   cuda    a GPU (cuda_device.h)
//   null    no memory, no arithmetic; streams advance virtual time
// Thread-safety: one rank's thread drives a device; its streams may run work on threads of their
// own. Ownership: the device outlives its arenas and streams.
//
//   std::unique_ptr<Device> device = NewHostDevice({.memory_bytes = 6'000'000'000});
//   ASSIGN_OR_RETURN(std::unique_ptr<Arena> arena, device->NewArena(Tier::kDevice, bytes));
//   std::unique_ptr<Stream> stream = device->NewStream("compute");
//   device->CopyIn(*stream, arena->base(), source, bytes);
//   device->Launch(*stream, kernel, args, seconds);
//   RETURN_IF_ERROR(stream->Synchronize());
#ifndef COLOSSUS_TENSOR_EXEC_DEVICE_H_
#define COLOSSUS_TENSOR_EXEC_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "base/stream.h"
#include "base/virtual_stream.h"
#include "tensor/graph/types.h"
#include "tensor/kernels/kernel.h"

namespace colossus {

enum class DeviceKind : uint8_t { kHost, kCapped, kCuda, kNull };
absl::string_view Name(DeviceKind kind);

// A block of memory of one tier, 64-byte aligned. Freed when destroyed.
class Arena {
 public:
  virtual ~Arena() = default;
  // Start of the block. On the null device a made-up address that must not be dereferenced.
  virtual char* base() const = 0;
  virtual int64_t bytes() const = 0;
};

// Bytes copied since the device was made.
struct CopiedBytes {
  int64_t in = 0;   // host to device
  int64_t out = 0;  // device to host
};

// A kernel with its arguments by value: what a stream keeps until it runs it.
struct KernelLaunch {
  const PlannedKernel* kernel = nullptr;  // must outlive the launch
  std::vector<const void*> operands;
  std::vector<void*> results;
  void* workspace = nullptr;
  double seconds = 0;  // predicted; what the null device adds to its clock
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  // Bytes of the device tier. Arenas on it never exceed this in sum.
  virtual int64_t capacity_bytes() const = 0;
  // Kernels this device runs, best first.
  virtual KernelList kernels() const = 0;
  // Kernels that run on host memory beside it (LaunchOnHost), best first; empty: none do.
  virtual KernelList host_kernels() const { return kernels(); }
  virtual int host_threads() const { return threads(); }
  // Threads each kernel may use.
  virtual int threads() const = 0;
  // False: the null device; there is nothing behind addresses.
  virtual bool computes() const = 0;
  // Whether work of one stream runs beside that of another. Without, a second stream is no gain.
  virtual bool overlaps() const { return true; }

  // Error: ResourceExhausted naming the tier, bytes asked and bytes left.
  virtual absl::StatusOr<std::unique_ptr<Arena>> NewArena(Tier tier, int64_t bytes) = 0;
  virtual std::unique_ptr<Stream> NewStream(absl::string_view name) = 0;
  // One for LaunchOnHost only, whose work runs beside that of all others, where streams do.
  virtual std::unique_ptr<Stream> NewHostStream(absl::string_view name) { return NewStream(name); }

  // All of these add work to `stream` and return. `host` memory must stay valid until it ran.
  virtual void Launch(Stream& stream, KernelLaunch launch) = 0;
  virtual void CopyIn(Stream& stream, void* device, const void* host, int64_t bytes) = 0;
  virtual void CopyOut(Stream& stream, void* host, const void* device, int64_t bytes) = 0;
  virtual void CopyWithin(Stream& stream, void* dst, const void* src, int64_t bytes) = 0;
  virtual void Fill(Stream& stream, void* device, unsigned char byte, int64_t bytes) = 0;
  // Work of the CPU on host memory, or between host memory and disk; it must not touch device
  // memory. On the null device only `seconds` pass.
  virtual void LaunchOnHost(Stream& stream, std::function<absl::Status()> work, double seconds) {
    static_cast<void>(seconds);
    stream.Launch(std::move(work));
  }

  virtual Clock& clock() = 0;
  virtual CopiedBytes copied() const = 0;
};

struct HostDeviceOptions {
  int64_t memory_bytes = INT64_MAX;
  int threads = 1;
  KernelList kernels;  // best first. REQUIRES: not empty
  // The stream "link" has a thread of its own, so that a rank can wait for messages of others while
  // it computes. Else all runs at once on the calling thread.
  bool overlap = false;
};
std::unique_ptr<Device> NewHostDevice(const HostDeviceOptions& options);

struct CappedDeviceOptions {
  int64_t memory_bytes = 0;
  int threads = 1;
  KernelList kernels;
  // Set: streams have no threads; work stays queued until somebody waits for an event (polling
  // Done() makes no progress), then streams run on the waiting thread in a seeded random order that
  // respects only recorded events. A missing wait gives wrong numbers.
  std::optional<uint64_t> late_seed;
  // Host arenas are unreadable while a kernel runs, and device memory is unreadable to the host
  // unless device work runs: a stray dereference is a fault. The host may use its own arenas while
  // work is queued, so work runs as with a late_seed (0 if none is set).
  bool protect = false;
  // Copies in and copies out each take at least as long as on a link of this rate; 0: as fast as
  // memory is.
  double link_bytes_per_second = 0;
};
// The device tier is one mapping of exactly `memory_bytes`, arenas are ranges of it (64-byte
// aligned, so the "left" of a refusal is the largest range), and what runs over its end faults.
// Error: InvalidArgument for memory_bytes <= 0; ResourceExhausted if the system maps no such range.
absl::StatusOr<std::unique_ptr<Device>> NewCappedDevice(const CappedDeviceOptions& options);

struct NullDeviceOptions {
  int64_t memory_bytes = INT64_MAX;
  int threads = 1;
  KernelList kernels;                   // planned, never run
  double copy_bytes_per_second = 12e9;  // each direction
  // Streams of a simulated world (collectives/simulated.h), where several ranks' times depend on
  // each other; none: streams of this device alone.
  std::function<std::unique_ptr<VirtualStream>(VirtualClock&)> new_stream = nullptr;
};
std::unique_ptr<Device> NewNullDevice(const NullDeviceOptions& options);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_DEVICE_H_
