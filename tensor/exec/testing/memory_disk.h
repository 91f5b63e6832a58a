// MemoryDisk: a disk tier that is memory: for tests of what uses one.
//
// Purpose: bytes on demand, counted, and failures on demand.
// Thread-safety: all of it. Ownership: owns its bytes.
//
//   ProgramOptions options;
//   options.disk = std::make_shared<MemoryDisk>(/*capacity_bytes=*/1 << 20);
#ifndef COLOSSUS_TENSOR_EXEC_TESTING_MEMORY_DISK_H_
#define COLOSSUS_TENSOR_EXEC_TESTING_MEMORY_DISK_H_

#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "tensor/exec/disk_tier.h"

namespace colossus {

class MemoryDisk final : public DiskTier {
 public:
  explicit MemoryDisk(int64_t capacity_bytes) : capacity_(capacity_bytes) {}

  int64_t capacity_bytes() const override { return capacity_; }
  int64_t alignment_bytes() const override { return 512; }
  int64_t staging_bytes() const override { return 0; }
  absl::Status Reserve(int64_t bytes) override;
  absl::Status Read(int64_t offset, void* dst, int64_t bytes) override;
  absl::Status Write(int64_t offset, const void* src, int64_t bytes) override;
  DiskTraffic traffic() const override;

  // The n-th access from now on fails; 0: the next one.
  void FailAfter(int n);

 private:
  absl::Status Access();  // REQUIRES: mutex_ is held

  const int64_t capacity_;
  mutable std::mutex mutex_;
  std::vector<char> bytes_;  // all below: guarded by mutex_
  DiskTraffic traffic_;
  int left_ = -1;  // accesses that still work; negative: all do
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_TESTING_MEMORY_DISK_H_
