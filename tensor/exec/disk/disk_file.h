// DiskFile: an open file without a name, for direct I/O, that can be made to take its disk at once.
//
// Thread-safety: CheckWhole from any thread; the rest one thread. Ownership: owns the file, whose
// blocks are free again when it is destroyed.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<DiskFile> file, DiskFile::Open("/scratch", RealFileSystem()));
//   RETURN_IF_ERROR(file->Reserve(1 << 30));
#ifndef COLOSSUS_TENSOR_EXEC_DISK_DISK_FILE_H_
#define COLOSSUS_TENSOR_EXEC_DISK_DISK_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"

namespace colossus {

// Files are read and written in whole blocks, from memory that begins at a multiple of this.
inline constexpr int64_t kDiskBlock = 4096;

inline int64_t WholeBlocks(int64_t bytes) {
  return (bytes + kDiskBlock - 1) / kDiskBlock * kDiskBlock;
}

// "operation of FOLDER's offload file: what the system says". `error`: an errno.
absl::Status DiskError(absl::string_view operation, const std::string& folder, int error);

class DiskFile {
 public:
  // Makes the folder if it is missing. InvalidArgument: a file system in memory, or one without
  // direct I/O; else what the system says. All errors name a remedy.
  static absl::StatusOr<std::unique_ptr<DiskFile>> Open(const std::string& folder,
                                                        FileSystem& files);
  ~DiskFile();

  int descriptor() const { return descriptor_; }
  const std::string& folder() const { return folder_; }
  absl::StatusOr<int64_t> FreeBytes() const { return files_.FreeBytes(folder_); }

  // Gives the file `bytes` of disk, whole blocks. ResourceExhausted: with wanted and free bytes.
  absl::Status Reserve(int64_t bytes);
  // DataLoss: somebody has cut the file shorter than what was reserved.
  absl::Status CheckWhole() const;

 private:
  DiskFile(std::string folder, FileSystem& files, int descriptor)
      : folder_(std::move(folder)), files_(files), descriptor_(descriptor) {}
  absl::Status TryOneBlock() const;
  // Returns an errno; 0: done.
  int Fill(int64_t bytes) const;
  int FillWithZeros(int64_t bytes) const;
  // `error`: the errno of what was refused; 0: it was not tried.
  absl::Status TooFull(int64_t wanted, int64_t free, int error) const;

  const std::string folder_;
  FileSystem& files_;
  const int descriptor_;
  int64_t reserved_ = 0;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_DISK_DISK_FILE_H_
