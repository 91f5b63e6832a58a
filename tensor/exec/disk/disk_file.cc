#include "tensor/exec/disk/disk_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status.h"

namespace colossus {
namespace {

constexpr char kRemedy[] =
    "give as --offload_dir a folder on a local disk (ext4, xfs, btrfs) that may be written, or "
    "leave it out and give more --host_memory";

absl::Status NoDirectIo(const std::string& folder, absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat(folder, ": ", reason, "; ", kRemedy));
}

// Since Linux 6.6 these open files for direct I/O and then copy within memory.
absl::Status CheckOnDisk(const std::string& folder) {
  struct statfs info;
  if (statfs(folder.c_str(), &info) != 0) return DiskError("statfs", folder, errno);
  const auto type = static_cast<unsigned long>(info.f_type);
  if (type != TMPFS_MAGIC && type != RAMFS_MAGIC && type != HUGETLBFS_MAGIC) {
    return absl::OkStatus();
  }
  return NoDirectIo(folder,
                    "its file system is in memory (tmpfs or the like), so what is put "
                    "there takes the host memory that it is to save");
}

// NoDirectIo has said it.
absl::Status WithRemedy(const absl::Status& status) {
  if (status.ok() || absl::StrContains(status.message(), kRemedy)) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), "; ", kRemedy));
}

// An open file under a name that nobody else has had, and the name. The name goes at once, so the
// system frees the blocks however the process ends.
absl::StatusOr<int> OpenUnnamed(const std::string& folder) {
  static std::atomic<int> count = 0;
  for (;;) {
    const std::string path =
        JoinPath(folder, absl::StrCat("colossus-offload-", getpid(), "-", count++));
    const int fd =
        open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_DIRECT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && (errno == EEXIST || errno == EINTR)) continue;
    if (fd < 0 && errno == EINVAL) {
      unlink(path.c_str());  // some file systems make the file before they refuse
      return NoDirectIo(folder, "its file system has no direct I/O");
    }
    if (fd < 0) return DiskError("open", folder, errno);
    if (unlink(path.c_str()) != 0) {
      const int error = errno;
      close(fd);
      return DiskError("unlink", folder, error);
    }
    return fd;
  }
}

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
using Block = std::unique_ptr<char, FreeMemory>;

Block NewBlock(int64_t bytes) {
  Block block(static_cast<char*>(std::aligned_alloc(kDiskBlock, static_cast<size_t>(bytes))));
  CHECK(block != nullptr) << "no memory for " << bytes << " bytes";
  std::memset(block.get(), 0, static_cast<size_t>(bytes));
  return block;
}

}  // namespace

absl::Status DiskError(absl::string_view operation, const std::string& folder, int error) {
  const std::string message = absl::StrCat(operation, " of the offload file in ", folder, ": ",
                                           std::system_category().message(error));
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return absl::ResourceExhaustedError(message);
  }
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM || error == EROFS) {
    return absl::PermissionDeniedError(message);
  }
  return absl::UnavailableError(message);
}

absl::StatusOr<std::unique_ptr<DiskFile>> DiskFile::Open(const std::string& folder,
                                                         FileSystem& files) {
  RETURN_IF_ERROR(WithRemedy(files.MakeDirs(folder)));
  RETURN_IF_ERROR(WithRemedy(CheckOnDisk(folder)));
  absl::StatusOr<int> descriptor = OpenUnnamed(folder);
  RETURN_IF_ERROR(WithRemedy(descriptor.status()));
  std::unique_ptr<DiskFile> file(new DiskFile(folder, files, *descriptor));
  RETURN_IF_ERROR(WithRemedy(file->TryOneBlock()));
  return file;
}

DiskFile::~DiskFile() { close(descriptor_); }

// Some file systems take the flag and refuse the first block.
absl::Status DiskFile::TryOneBlock() const {
  const Block block = NewBlock(kDiskBlock);
  const size_t bytes = static_cast<size_t>(kDiskBlock);
  if (pwrite(descriptor_, block.get(), bytes, 0) < 0 ||
      pread(descriptor_, block.get(), bytes, 0) < 0) {
    if (errno == EINVAL) return NoDirectIo(folder_, "its file system has no direct I/O");
    return DiskError("trial", folder_, errno);
  }
  if (ftruncate(descriptor_, 0) != 0) return DiskError("truncate", folder_, errno);
  return absl::OkStatus();
}

absl::Status DiskFile::TooFull(int64_t wanted, int64_t free, int error) const {
  const std::string wants =
      absl::StrFormat("%s: %d bytes of disk are wanted (%.3f GB)", folder_, wanted,
                      static_cast<double>(wanted) / 1e9);
  if (error == EFBIG) {
    return absl::ResourceExhaustedError(
        absl::StrCat(wants, " in one file, which may not be so large here; raise the limit of this "
                            "process (ulimit -f), give another --offload_dir, or more "
                            "--host_memory"));
  }
  const std::string reason =
      error == EDQUOT ? absl::StrCat(", and ", std::system_category().message(error)) : "";
  return absl::ResourceExhaustedError(absl::StrFormat(
      "%s, %d are free (%.3f GB)%s; make room there, give another --offload_dir, or more "
      "--host_memory",
      wants, free, static_cast<double>(free) / 1e9, reason));
}

absl::Status DiskFile::Reserve(int64_t bytes) {
  CHECK_EQ(bytes % kDiskBlock, 0);
  if (bytes == 0) return absl::OkStatus();
  const absl::StatusOr<int64_t> free_bytes = FreeBytes();
  RETURN_IF_ERROR(WithRemedy(free_bytes.status()));
  const int64_t free = *free_bytes;
  if (bytes > free) return TooFull(bytes, free, 0);
  const int error = Fill(bytes);
  if (error == 0) {
    reserved_ = bytes;
    return absl::OkStatus();
  }
  // Gives back what it got before the disk was full.
  if (ftruncate(descriptor_, 0) != 0) return DiskError("truncate", folder_, errno);
  const absl::Status status = DiskError("reservation", folder_, error);
  return absl::IsResourceExhausted(status) ? TooFull(bytes, free, error) : WithRemedy(status);
}

int DiskFile::Fill(int64_t bytes) const {
  int error;
  do {
    error = fallocate(descriptor_, 0, 0, bytes) == 0 ? 0 : errno;
  } while (error == EINTR);
  return error == EOPNOTSUPP || error == ENOSYS ? FillWithZeros(bytes) : error;
}

int DiskFile::FillWithZeros(int64_t bytes) const {
  const int64_t piece = std::min<int64_t>(bytes, int64_t{4} << 20);
  const Block zeros = NewBlock(piece);
  for (int64_t at = 0; at < bytes;) {
    const ssize_t written =
        pwrite(descriptor_, zeros.get(), static_cast<size_t>(std::min(piece, bytes - at)), at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    const int64_t blocks = written / kDiskBlock * kDiskBlock;
    if (blocks == 0) return ENOSPC;
    at += blocks;
  }
  return 0;
}

absl::Status DiskFile::CheckWhole() const {
  struct stat info;
  if (fstat(descriptor_, &info) != 0) return DiskError("stat", folder_, errno);
  if (info.st_size >= reserved_) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the offload file in ", folder_, " has ", info.st_size,
                                          " bytes where ", reserved_,
                                          " were reserved: somebody has cut it"));
}

}  // namespace colossus
