// The null device: nothing behind its addresses, no arithmetic; streams advance virtual time.
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/virtual_stream.h"
#include "tensor/exec/device.h"

namespace colossus {
namespace {

// Addresses start here so that an offset is never mistaken for a null pointer.
constexpr uintptr_t kFirstAddress = uintptr_t{1} << 40;

class NullArena final : public Arena {
 public:
  // `taken` holds the bytes for as long as the arena lives; nullptr: not accounted.
  NullArena(int64_t bytes, int64_t* taken) : bytes_(bytes), taken_(taken) {
    if (taken_ != nullptr) *taken_ += bytes_;
  }
  ~NullArena() override {
    if (taken_ != nullptr) *taken_ -= bytes_;
  }
  char* base() const override { return reinterpret_cast<char*>(kFirstAddress); }
  int64_t bytes() const override { return bytes_; }

 private:
  const int64_t bytes_;
  int64_t* const taken_;
};

class NullDevice final : public Device {
 public:
  explicit NullDevice(const NullDeviceOptions& options) : options_(options) {}

  DeviceKind kind() const override { return DeviceKind::kNull; }
  int64_t capacity_bytes() const override { return options_.memory_bytes; }
  KernelList kernels() const override { return options_.kernels; }
  int threads() const override { return options_.threads; }
  bool computes() const override { return false; }
  Clock& clock() override { return clock_; }
  CopiedBytes copied() const override { return copied_; }

  absl::StatusOr<std::unique_ptr<Arena>> NewArena(Tier tier, int64_t bytes) override {
    if (tier == Tier::kDevice && bytes > options_.memory_bytes - taken_) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "device memory: asked for ", bytes, " bytes, left ", options_.memory_bytes - taken_));
    }
    if (tier != Tier::kDevice) return std::make_unique<NullArena>(bytes, nullptr);
    return std::make_unique<NullArena>(bytes, &taken_);
  }

  std::unique_ptr<Stream> NewStream(absl::string_view) override {
    return options_.new_stream ? options_.new_stream(clock_) : NewVirtualStream(clock_);
  }

  void Launch(Stream& stream, KernelLaunch launch) override { Of(stream).Advance(launch.seconds); }
  void CopyIn(Stream& stream, void*, const void*, int64_t bytes) override {
    copied_.in += bytes;
    Of(stream).Advance(static_cast<double>(bytes) / options_.copy_bytes_per_second);
  }
  void CopyOut(Stream& stream, void*, const void*, int64_t bytes) override {
    copied_.out += bytes;
    Of(stream).Advance(static_cast<double>(bytes) / options_.copy_bytes_per_second);
  }
  void CopyWithin(Stream& stream, void*, const void*, int64_t) override { Of(stream).Advance(0); }
  void Fill(Stream& stream, void*, unsigned char, int64_t) override { Of(stream).Advance(0); }
  void LaunchOnHost(Stream& stream, std::function<absl::Status()>, double seconds) override {
    Of(stream).Advance(seconds);
  }

 private:
  static VirtualStream& Of(Stream& stream) {
    auto* own = dynamic_cast<VirtualStream*>(&stream);
    CHECK(own != nullptr) << "a stream of another device";
    return *own;
  }

  NullDeviceOptions options_;
  int64_t taken_ = 0;
  CopiedBytes copied_;
  VirtualClock clock_;
};

}  // namespace

std::unique_ptr<Device> NewNullDevice(const NullDeviceOptions& options) {
  CHECK(!options.kernels.empty()) << "a device needs a list of kernels";
  return std::make_unique<NullDevice>(options);
}

}  // namespace colossus
