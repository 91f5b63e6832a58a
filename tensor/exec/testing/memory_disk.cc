#include "tensor/exec/testing/memory_disk.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace colossus {

absl::Status MemoryDisk::Reserve(int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  CHECK(bytes_.empty()) << "reserved twice";
  if (bytes > capacity_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a disk in memory: asked for ", bytes, " bytes, free ", capacity_));
  }
  bytes_.assign(static_cast<size_t>(bytes), '\xFF');
  return absl::OkStatus();
}

absl::Status MemoryDisk::Access() {
  if (left_ < 0) return absl::OkStatus();
  if (left_-- > 0) return absl::OkStatus();
  return absl::DataLossError("a disk in memory: injected failure");
}

absl::Status MemoryDisk::Read(int64_t offset, void* dst, int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Access());
  CHECK(offset >= 0 && offset + bytes <= static_cast<int64_t>(bytes_.size()));
  std::memcpy(dst, bytes_.data() + offset, static_cast<size_t>(bytes));
  traffic_.read_bytes += bytes;
  return absl::OkStatus();
}

absl::Status MemoryDisk::Write(int64_t offset, const void* src, int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Access());
  CHECK(offset >= 0 && offset + bytes <= static_cast<int64_t>(bytes_.size()));
  std::memcpy(bytes_.data() + offset, src, static_cast<size_t>(bytes));
  traffic_.written_bytes += bytes;
  return absl::OkStatus();
}

DiskTraffic MemoryDisk::traffic() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return traffic_;
}

void MemoryDisk::FailAfter(int n) {
  std::lock_guard<std::mutex> lock(mutex_);
  left_ = n;
}

}  // namespace colossus
