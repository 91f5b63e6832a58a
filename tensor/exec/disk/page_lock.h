// Keeps a range of memory from being written to swap.
//
// Thread-safe. The lock goes with the memory: unmapping it ends both.
//
//   const absl::Status locked = LockPages(arena->base(), arena->bytes());
//   if (!locked.ok()) log.Warning(locked.message());   // and go on: only speed is at stake
#ifndef COLOSSUS_TENSOR_EXEC_DISK_PAGE_LOCK_H_
#define COLOSSUS_TENSOR_EXEC_DISK_PAGE_LOCK_H_

#include <cstdint>

#include "absl/status/status.h"

namespace colossus {

// Pages are locked as they are touched; asking reads none in. Error: ResourceExhausted with the
// bytes asked for and the system's limit for this process; the memory stays as usable as it was.
absl::Status LockPages(void* memory, int64_t bytes);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_DISK_PAGE_LOCK_H_
