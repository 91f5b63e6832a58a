// The capped device: behaves like a GPU on a CPU. Its memory is a mapping of its own of the
// declared size, its streams run asynchronously (or as late as allowed), and copies are counted.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/huge_pages.h"
#include "base/round_up.h"
#include "base/status.h"
#include "tensor/exec/device.h"
#include "tensor/exec/late_stream.h"
#include "tensor/exec/worker_stream.h"

namespace colossus {
namespace {

constexpr int64_t kAlignment = 64;

// Anonymous pages of its own, with an inaccessible page after them, so that whoever runs over the
// end faults (after up to 63 bytes that keep the base aligned).
class Mapping {
 public:
  static absl::StatusOr<std::unique_ptr<Mapping>> New(Tier tier, int64_t bytes) {
    const int64_t page = sysconf(_SC_PAGESIZE);
    const int64_t usable = RoundUp(std::max<int64_t>(bytes, 1), page);
    void* start = mmap(nullptr, static_cast<size_t>(usable + page), PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) {
      return absl::ResourceExhaustedError(absl::StrCat(
          Name(tier), " memory: the system does not map ", bytes, " bytes: ", strerror(errno)));
    }
    std::unique_ptr<Mapping> mapping(new Mapping(static_cast<char*>(start), usable, page, bytes));
    mapping->SetAccess(true);
    AdviseHugePages(start, static_cast<size_t>(usable));
    return mapping;
  }
  ~Mapping() { CHECK_EQ(munmap(start_, static_cast<size_t>(usable_ + page_)), 0); }

  char* base() const { return base_; }
  void SetAccess(bool allowed) {
    CHECK_EQ(mprotect(start_, static_cast<size_t>(usable_),
                      allowed ? PROT_READ | PROT_WRITE : PROT_NONE),
             0)
        << strerror(errno);
  }

 private:
  Mapping(char* start, int64_t usable, int64_t page, int64_t bytes)
      : start_(start),
        usable_(usable),
        page_(page),
        base_(start + (usable - bytes) / kAlignment * kAlignment) {}

  char* const start_;
  const int64_t usable_, page_;
  char* const base_;
};

// Who may touch what while something runs. With `protect` work runs one piece at a time on the
// thread that waits (LateScheduler), so there is one state, switched around each piece.
class Protection {
 public:
  Protection(Mapping& device, bool protect) : device_(device), protect_(protect) {
    if (protect_) device_.SetAccess(false);
  }
  void AddHost(Mapping* host) { hosts_.insert(host); }
  void RemoveHost(Mapping* host) { hosts_.erase(host); }

  // Runs `work` with the device's memory open, and host arenas closed if it is a kernel.
  template <typename Work>
  void Run(bool kernel, Work work) {
    if (protect_) Switch(/*device=*/true, /*hosts=*/!kernel);
    work();
    if (protect_) Switch(/*device=*/false, /*hosts=*/true);
  }

 private:
  void Switch(bool device, bool hosts) {
    device_.SetAccess(device);
    for (Mapping* host : hosts_) host->SetAccess(hosts);
  }

  Mapping& device_;
  const bool protect_;
  std::set<Mapping*> hosts_;
};

// Ranges of the device's memory.
class Ranges {
 public:
  explicit Ranges(int64_t bytes) { free_[0] = bytes; }

  // First free range that holds `bytes`; -1: none does.
  int64_t Take(int64_t bytes) {
    for (auto [offset, size] : free_) {
      if (size < bytes) continue;
      free_.erase(offset);
      // Whole units, so that every range starts aligned; the last one may end at the memory's end.
      const int64_t used = std::min(size, RoundUp(bytes, kAlignment));
      taken_[offset] = used;
      if (size > used) free_[offset + used] = size - used;
      return offset;
    }
    return -1;
  }

  void Give(int64_t offset) {
    auto taken = taken_.find(offset);
    CHECK(taken != taken_.end());
    auto range = free_.emplace(offset, taken->second).first;
    taken_.erase(taken);
    auto next = std::next(range);
    if (next != free_.end() && range->first + range->second == next->first) {
      range->second += next->second;
      free_.erase(next);
    }
    if (range == free_.begin()) return;
    auto previous = std::prev(range);
    if (previous->first + previous->second == range->first) {
      previous->second += range->second;
      free_.erase(range);
    }
  }

  int64_t Largest() const {
    int64_t largest = 0;
    for (auto [offset, size] : free_) largest = std::max(largest, size);
    return largest;
  }

 private:
  std::map<int64_t, int64_t> free_, taken_;  // offset -> bytes
};

class DeviceArena final : public Arena {
 public:
  DeviceArena(Mapping& mapping, Ranges& ranges, int64_t offset, int64_t bytes)
      : ranges_(ranges), offset_(offset), base_(mapping.base() + offset), bytes_(bytes) {}
  ~DeviceArena() override {
    if (bytes_ > 0) ranges_.Give(offset_);
  }
  char* base() const override { return base_; }
  int64_t bytes() const override { return bytes_; }

 private:
  Ranges& ranges_;
  const int64_t offset_;
  char* const base_;
  const int64_t bytes_;
};

class PinnedArena final : public Arena {
 public:
  PinnedArena(std::unique_ptr<Mapping> mapping, Protection& protection, int64_t bytes)
      : mapping_(std::move(mapping)), protection_(protection), bytes_(bytes) {
    protection_.AddHost(mapping_.get());
  }
  ~PinnedArena() override { protection_.RemoveHost(mapping_.get()); }
  char* base() const override { return mapping_->base(); }
  int64_t bytes() const override { return bytes_; }

 private:
  std::unique_ptr<Mapping> mapping_;
  Protection& protection_;
  const int64_t bytes_;
};

class CappedDevice final : public Device {
 public:
  CappedDevice(const CappedDeviceOptions& options, std::unique_ptr<Mapping> mapping)
      : options_(options),
        mapping_(std::move(mapping)),
        ranges_(options.memory_bytes),
        protection_(*mapping_, options.protect) {
    if (options.late_seed.has_value() || options.protect) {
      late_ = std::make_unique<LateScheduler>(options.late_seed.value_or(0));
    }
  }

  DeviceKind kind() const override { return DeviceKind::kCapped; }
  int64_t capacity_bytes() const override { return options_.memory_bytes; }
  KernelList kernels() const override { return options_.kernels; }
  int threads() const override { return options_.threads; }
  bool computes() const override { return true; }
  Clock& clock() override { return clock_; }
  CopiedBytes copied() const override { return copied_; }

  absl::StatusOr<std::unique_ptr<Arena>> NewArena(Tier tier, int64_t bytes) override {
    CHECK_GE(bytes, 0);
    if (tier != Tier::kDevice) {
      ASSIGN_OR_RETURN(std::unique_ptr<Mapping> mapping, Mapping::New(tier, bytes));
      return std::make_unique<PinnedArena>(std::move(mapping), protection_, bytes);
    }
    const int64_t offset = bytes == 0 ? 0 : ranges_.Take(bytes);
    if (offset < 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("device memory: asked for ", bytes, " bytes, left ", ranges_.Largest()));
    }
    return std::make_unique<DeviceArena>(*mapping_, ranges_, offset, bytes);
  }

  std::unique_ptr<Stream> NewStream(absl::string_view) override {
    if (late_ != nullptr) return late_->NewStream();
    return std::make_unique<WorkerStream>(options_.threads);
  }

  void Launch(Stream& stream, KernelLaunch launch) override {
    stream.Launch([this, launch = std::move(launch)] {
      absl::Status status;
      protection_.Run(/*kernel=*/true, [&] {
        status = RunKernel(*launch.kernel, {launch.operands, launch.results, launch.workspace});
      });
      return status;
    });
  }
  void CopyIn(Stream& stream, void* device, const void* host, int64_t bytes) override {
    copied_.in += bytes;
    CopyOverLink(stream, device, host, bytes);
  }
  void CopyOut(Stream& stream, void* host, const void* device, int64_t bytes) override {
    copied_.out += bytes;
    CopyOverLink(stream, host, device, bytes);
  }
  void CopyWithin(Stream& stream, void* dst, const void* src, int64_t bytes) override {
    Copy(stream, dst, src, bytes);
  }
  void Fill(Stream& stream, void* device, unsigned char byte, int64_t bytes) override {
    stream.Launch([=, this] {
      protection_.Run(/*kernel=*/false,
                      [=] { std::memset(device, byte, static_cast<size_t>(bytes)); });
      return absl::OkStatus();
    });
  }

 private:
  void Copy(Stream& stream, void* dst, const void* src, int64_t bytes) {
    stream.Launch([=, this] {
      protection_.Run(/*kernel=*/false, [=] { std::memcpy(dst, src, static_cast<size_t>(bytes)); });
      return absl::OkStatus();
    });
  }

  // The stream sleeps until a link of the declared rate would have done it.
  void CopyOverLink(Stream& stream, void* dst, const void* src, int64_t bytes) {
    const double rate = options_.link_bytes_per_second;
    if (rate <= 0) return Copy(stream, dst, src, bytes);
    const std::chrono::duration<double> least(static_cast<double>(bytes) / rate);
    auto start = std::make_shared<std::chrono::steady_clock::time_point>();
    stream.Launch([start] {
      *start = std::chrono::steady_clock::now();
      return absl::OkStatus();
    });
    Copy(stream, dst, src, bytes);
    stream.Launch([start, least] {
      std::this_thread::sleep_until(*start + least);
      return absl::OkStatus();
    });
  }

  const CappedDeviceOptions options_;
  const std::unique_ptr<Mapping> mapping_;
  Ranges ranges_;
  Protection protection_;
  std::unique_ptr<LateScheduler> late_;  // nullptr: streams have threads
  CopiedBytes copied_;
  RealClock clock_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> NewCappedDevice(const CappedDeviceOptions& options) {
  CHECK(!options.kernels.empty()) << "a device needs a list of kernels";
  CHECK_GE(options.threads, 1);
  if (options.memory_bytes <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a capped device needs a memory size above 0, "
                     "given ",
                     options.memory_bytes, " bytes"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Mapping> mapping,
                   Mapping::New(Tier::kDevice, options.memory_bytes));
  return std::make_unique<CappedDevice>(options, std::move(mapping));
}

}  // namespace colossus
