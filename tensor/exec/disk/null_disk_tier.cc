#include "tensor/exec/disk/null_disk_tier.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensor/exec/disk/disk_file.h"
#include "tensor/exec/disk/file_disk_tier.h"

namespace colossus {
namespace {

class NullDiskTier final : public DiskTier {
 public:
  NullDiskTier(int64_t capacity_bytes, int64_t alignment_bytes, int64_t staging_bytes)
      : capacity_(capacity_bytes), alignment_(alignment_bytes), staging_(staging_bytes) {}

  int64_t capacity_bytes() const override { return capacity_; }
  int64_t alignment_bytes() const override { return alignment_; }
  int64_t staging_bytes() const override { return staging_; }
  absl::Status Reserve(int64_t bytes) override {
    if (bytes <= capacity_) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat(bytes, " bytes of disk are wanted, ", capacity_, " are free"));
  }
  absl::Status Read(int64_t, void*, int64_t) override { return absl::OkStatus(); }
  absl::Status Write(int64_t, const void*, int64_t) override { return absl::OkStatus(); }
  DiskTraffic traffic() const override { return {}; }

 private:
  const int64_t capacity_, alignment_, staging_;
};

}  // namespace

std::unique_ptr<DiskTier> NewNullDiskTier(int64_t capacity_bytes) {
  return std::make_unique<NullDiskTier>(capacity_bytes, kDiskBlock,
                                        StagingBytes(FileDiskTierOptions()));
}

std::unique_ptr<DiskTier> NewNullDiskTier(const DiskTier& other) {
  return std::make_unique<NullDiskTier>(other.capacity_bytes(), other.alignment_bytes(),
                                        other.staging_bytes());
}

}  // namespace colossus
