// DiskTier: the memory below the host's: one rank's block of disk, addressed in bytes.
//
// Purpose: what a Program needs of a disk, however it is made: tensor/exec/disk/file_disk_tier.h
// keeps it in a file. A Program without one has no disk tier.
// Thread-safety: Reserve first and alone; then Read and Write from any threads, as long as ranges
// that overlap, rounded out to whole alignment_bytes(), are not touched by a Write meanwhile.
// Ownership: the owner keeps it alive until all streams that use it are idle.
//
//   RETURN_IF_ERROR(disk.Reserve(plan.disk_bytes));
//   RETURN_IF_ERROR(disk.Write(0, moments, bytes));   // returns when `moments` may be reused
//   RETURN_IF_ERROR(disk.Read(0, moments, bytes));
#ifndef COLOSSUS_TENSOR_EXEC_DISK_TIER_H_
#define COLOSSUS_TENSOR_EXEC_DISK_TIER_H_

#include <cstdint>

#include "absl/status/status.h"

namespace colossus {

// Since the tier was made. Bytes are those that went to or came from the disk: whole blocks.
struct DiskTraffic {
  int64_t read_bytes = 0, written_bytes = 0;
};

class DiskTier {
 public:
  virtual ~DiskTier() = default;

  // Bytes that Reserve can have at most, as far as is known now.
  virtual int64_t capacity_bytes() const = 0;
  // Ranges that begin at a multiple of this, in memory too, and are a multiple long go to the disk
  // as they are. Others work too, but their edges are read and written again, and memory is copied.
  virtual int64_t alignment_bytes() const = 0;
  // Host memory that the tier itself takes.
  virtual int64_t staging_bytes() const = 0;

  // Takes `bytes` of disk, so that no later Write finds it full. What they hold is undefined.
  // Once. Error: ResourceExhausted naming the place, the wanted and the free bytes; nothing is
  // taken then.
  virtual absl::Status Reserve(int64_t bytes) = 0;

  // REQUIRES: the range lies within the reserved bytes. Error: names the place and what happened;
  // after a failed Write the range is undefined, after a failed Read `dst` is.
  virtual absl::Status Read(int64_t offset, void* dst, int64_t bytes) = 0;
  virtual absl::Status Write(int64_t offset, const void* src, int64_t bytes) = 0;

  virtual DiskTraffic traffic() const = 0;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_DISK_TIER_H_
