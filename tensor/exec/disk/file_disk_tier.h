// A disk tier in a file without a name: it goes when its owner does, however that ends.
//
// Purpose: blocks go between memory and disk directly (O_DIRECT), never through the system's page
// cache, which would take the host memory that offloading is there to save. The file is in full
// size from Reserve on, so a disk that is too small is refused before anything is computed. Ranges
// move in pieces, several at once; what the system moves short is continued.
// Thread-safety and ownership: those of DiskTier. Reads go one after another, as do writes; a read
// and a write go beside each other.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<FileDiskTier> disk, NewFileDiskTier("/scratch/offload", {}));
//   log.Info(disk->method());   // "io_uring" or "threads"
#ifndef COLOSSUS_TENSOR_EXEC_DISK_FILE_DISK_TIER_H_
#define COLOSSUS_TENSOR_EXEC_DISK_FILE_DISK_TIER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "tensor/exec/disk/disk_queue.h"
#include "tensor/exec/disk_tier.h"

namespace colossus {

struct FileDiskTierOptions {
  // Of a piece: what a staging buffer holds. At most 16 MiB. A range takes whole blocks on disk for
  // each of its pieces.
  int64_t piece_bytes = int64_t{4} << 20;
  int pieces_in_flight = 4;  // each way
  // Uses io_uring where the kernel allows it.
  bool ring = true;
  // Tells the free bytes and makes the folder; null: the real one.
  FileSystem* files = nullptr;
  // For tests: puts something between the tier and its queue.
  std::function<std::unique_ptr<DiskQueue>(std::unique_ptr<DiskQueue>)> wrap_queue = nullptr;
};

// Host memory that a tier with these options may take for its buffers.
int64_t StagingBytes(const FileDiskTierOptions& options);

class FileDiskTier : public DiskTier {
 public:
  // How blocks move: "io_uring" or "threads".
  virtual absl::string_view method() const = 0;
};

// `folder` is made if it is missing. Error: InvalidArgument where its file system is in memory or
// has no direct I/O, else what the system says; all name the folder and a remedy.
absl::StatusOr<std::unique_ptr<FileDiskTier>> NewFileDiskTier(const std::string& folder,
                                                              const FileDiskTierOptions& options);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_DISK_FILE_DISK_TIER_H_
