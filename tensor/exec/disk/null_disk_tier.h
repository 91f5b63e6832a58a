// A disk tier that holds nothing, for programs that are only planned.
//
// Purpose: what a FileDiskTier of the same size offers and takes, so that a program on the null
// device has the plan that it has for real.
// Thread-safety and ownership: those of DiskTier.
//
//   options.disk = NewNullDiskTier(/*capacity_bytes=*/60'000'000'000);
#ifndef COLOSSUS_TENSOR_EXEC_DISK_NULL_DISK_TIER_H_
#define COLOSSUS_TENSOR_EXEC_DISK_NULL_DISK_TIER_H_

#include <cstdint>
#include <memory>

#include "tensor/exec/disk_tier.h"

namespace colossus {

// Reads and writes do nothing.
std::unique_ptr<DiskTier> NewNullDiskTier(int64_t capacity_bytes);
// The same in place of another tier: of its capacity, and taking as much host memory.
std::unique_ptr<DiskTier> NewNullDiskTier(const DiskTier& other);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_DISK_NULL_DISK_TIER_H_
