// The host device: plain memory, everything runs at once on the calling thread; with `overlap` but
// for the stream "link", whose work another thread does while this one computes.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/huge_pages.h"
#include "tensor/exec/device.h"
#include "tensor/exec/lazy_stream.h"

namespace colossus {
namespace {

constexpr size_t kPage = 4096;
constexpr int64_t kLarge = int64_t{64} << 20;  // bytes from which huge pages are aligned for

class HostArena final : public Arena {
 public:
  // `taken` holds the bytes for as long as the arena lives; nullptr: not accounted. Without memory
  // base() is nullptr.
  HostArena(int64_t bytes, int64_t* taken) : bytes_(bytes), taken_(taken) {
    if (taken_ != nullptr) *taken_ += bytes_;
    const size_t page = bytes < kLarge ? kPage : kHugePage;
    const size_t rounded = (static_cast<size_t>(bytes) + page) / page * page;
    base_ = static_cast<char*>(std::aligned_alloc(page, rounded));
    if (base_ != nullptr) AdviseHugePages(base_, static_cast<size_t>(bytes));
  }
  ~HostArena() override {
    std::free(base_);
    if (taken_ != nullptr) *taken_ -= bytes_;
  }
  char* base() const override { return base_; }
  int64_t bytes() const override { return bytes_; }

 private:
  const int64_t bytes_;
  int64_t* const taken_;
  char* base_;
};

class HostDevice final : public Device {
 public:
  explicit HostDevice(const HostDeviceOptions& options) : options_(options) {}

  DeviceKind kind() const override { return DeviceKind::kHost; }
  int64_t capacity_bytes() const override { return options_.memory_bytes; }
  KernelList kernels() const override { return options_.kernels; }
  int threads() const override { return options_.threads; }
  bool computes() const override { return true; }
  bool overlaps() const override { return options_.overlap; }
  Clock& clock() override { return clock_; }
  CopiedBytes copied() const override { return copied_; }

  absl::StatusOr<std::unique_ptr<Arena>> NewArena(Tier tier, int64_t bytes) override {
    bool device = tier == Tier::kDevice;
    if (device && bytes > options_.memory_bytes - taken_) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "device memory: asked for ", bytes, " bytes, left ", options_.memory_bytes - taken_));
    }
    auto arena = std::make_unique<HostArena>(bytes, device ? &taken_ : nullptr);
    if (arena->base() == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat(Name(tier), " memory: the system does not give ", bytes,
                       " bytes; free memory, or take a smaller model, micro-batch or sequence"));
    }
    return arena;
  }

  std::unique_ptr<Stream> NewStream(absl::string_view name) override {
    if (!options_.overlap) return std::make_unique<InlineStream>();
    if (name != "link") return std::make_unique<ComputeStream>(*this);
    std::erase_if(links_, [](const std::weak_ptr<LazyQueue>& link) { return link.expired(); });
    auto stream = std::make_unique<LazyStream>(threads());
    links_.push_back(stream->queue());
    return stream;
  }

  void Launch(Stream& stream, KernelLaunch launch) override {
    if (!options_.overlap || dynamic_cast<ComputeStream*>(&stream) != nullptr) {
      LeaveLinks(launch.seconds);
      stream.Launch([&launch] { return Run(launch); });
    } else {  // it may run later
      stream.Launch([launch = std::move(launch)] { return Run(launch); });
    }
  }
  void CopyIn(Stream& stream, void* device, const void* host, int64_t bytes) override {
    copied_.in += bytes;
    CopyWithin(stream, device, host, bytes);
  }
  void CopyOut(Stream& stream, void* host, const void* device, int64_t bytes) override {
    copied_.out += bytes;
    CopyWithin(stream, host, device, bytes);
  }
  void CopyWithin(Stream& stream, void* dst, const void* src, int64_t bytes) override {
    stream.Launch([=] {
      std::memcpy(dst, src, static_cast<size_t>(bytes));
      return absl::OkStatus();
    });
  }
  void Fill(Stream& stream, void* device, unsigned char byte, int64_t bytes) override {
    stream.Launch([=] {
      std::memset(device, byte, static_cast<size_t>(bytes));
      return absl::OkStatus();
    });
  }

 private:
  // Compute beside links: who is done with it does not look after them any more.
  class ComputeStream final : public InlineStream {
   public:
    explicit ComputeStream(HostDevice& device) : device_(device) {}
    absl::Status Synchronize() override {
      device_.LeaveLinks(1);
      return InlineStream::Synchronize();
    }

   private:
    HostDevice& device_;
  };

  // The links go on by themselves while this thread is busy for so long.
  void LeaveLinks(double seconds) {
    for (const std::weak_ptr<LazyQueue>& link : links_) {
      if (const std::shared_ptr<LazyQueue> queue = link.lock()) queue->Leave(seconds);
    }
  }

  static absl::Status Run(const KernelLaunch& launch) {
    return RunKernel(*launch.kernel, {launch.operands, launch.results, launch.workspace});
  }

  HostDeviceOptions options_;
  int64_t taken_ = 0;
  CopiedBytes copied_;
  RealClock clock_;
  std::vector<std::weak_ptr<LazyQueue>> links_;
};

}  // namespace

absl::string_view Name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kHost:
      return "host";
    case DeviceKind::kCapped:
      return "capped";
    case DeviceKind::kCuda:
      return "cuda";
    case DeviceKind::kNull:
      return "null";
  }
  CHECK(false) << "unknown device kind";
  return "";
}

std::unique_ptr<Device> NewHostDevice(const HostDeviceOptions& options) {
  CHECK(!options.kernels.empty()) << "a device needs a list of kernels";
  return std::make_unique<HostDevice>(options);
}

}  // namespace colossus
