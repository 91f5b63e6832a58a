#include "base/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace colossus {
namespace {

static_assert(sizeof(off_t) == 8, "files beyond 2 GiB need 64-bit offsets");

constexpr size_t kMostOfAStream = 256 << 20;  // bytes; /dev/zero has no end

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT: return absl::StatusCode::kNotFound;
    case EEXIST: return absl::StatusCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS: return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM: return absl::StatusCode::kResourceExhausted;
    case EISDIR:
    case ENOTDIR:
    case ENOTEMPTY:
    case ELOOP:
    case ENAMETOOLONG:
    case EXDEV: return absl::StatusCode::kFailedPrecondition;
    default: return absl::StatusCode::kUnavailable;
  }
}

// "open run/x: No such file or directory". std::system_category's text, as strerror's buffer is
// shared between threads.
absl::Status SystemError(absl::string_view operation, const std::string& path, int error) {
  return absl::Status(CodeOf(error), absl::StrCat(operation, " ", path, ": ",
                                                  std::system_category().message(error)));
}

// Repeats a system call while a signal interrupts it.
template <class Call>
auto Retry(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result == -1 && errno == EINTR);
  return result;
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

absl::StatusOr<FileDescriptor> Open(const std::string& path, int flags) {
  const int fd = Retry([&] { return open(path.c_str(), flags | O_CLOEXEC, 0666); });
  if (fd < 0) return SystemError("open", path, errno);
  return FileDescriptor(fd);
}

// The size of an open regular file; an error for folders and devices, which have no contents to
// read as a whole.
absl::StatusOr<int64_t> RegularSize(int fd, const std::string& path) {
  struct stat info;
  if (fstat(fd, &info) != 0) return SystemError("stat", path, errno);
  if (S_ISDIR(info.st_mode)) return SystemError("read", path, EISDIR);
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat("read ", path, ": not a regular file"));
  }
  return int64_t{info.st_size};
}

// /dev/stdout is a link into /proc, whatever file stands behind it now.
bool LeadsToAStream(const std::string& path) {
  char target[7];
  const ssize_t length = readlink(path.c_str(), target, sizeof(target));
  return length > 0 &&
         absl::StartsWith(absl::string_view(target, static_cast<size_t>(length)), "/proc/");
}

class RealWritableFile : public WritableFile {
 public:
  RealWritableFile(std::string path, FileDescriptor fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}

  absl::Status Append(std::span<const char> data) override {
    if (fd_.get() < 0) return Closed("write");
    while (!data.empty()) {
      // Linux writes at most 2 GiB less a page at once, and less when the disk fills up.
      const ssize_t written = Retry([&] { return write(fd_.get(), data.data(), data.size()); });
      if (written < 0) return SystemError("write", path_, errno);
      if (written == 0) return SystemError("write", path_, ENOSPC);
      data = data.subspan(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    if (fd_.get() < 0) return Closed("sync");
    if (Retry([&] { return fsync(fd_.get()); }) != 0) return SystemError("sync", path_, errno);
    return absl::OkStatus();
  }

  absl::Status Close() override {
    if (fd_.get() < 0) return Closed("close");
    // Not repeated on EINTR: Linux has freed the descriptor then.
    if (close(fd_.Release()) != 0 && errno != EINTR) return SystemError("close", path_, errno);
    return absl::OkStatus();
  }

 private:
  absl::Status Closed(absl::string_view operation) const {
    return absl::FailedPreconditionError(
        absl::StrCat(operation, " ", path_, ": the file is closed already"));
  }

  const std::string path_;
  FileDescriptor fd_;
};

class RealFileLock : public FileLock {
 public:
  explicit RealFileLock(FileDescriptor fd) : fd_(std::move(fd)) {}

 private:
  const FileDescriptor fd_;  // its end is the lock's
};

// The names in an open folder but "." and "..", in the system's order.
absl::StatusOr<std::vector<std::string>> ReadNames(DIR* dir, const std::string& path) {
  std::vector<std::string> names;
  errno = 0;  // readdir tells its errors from the end by errno alone
  while (const dirent* entry = readdir(dir)) {
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  if (errno != 0) return SystemError("list", path, errno);
  return names;
}

// Removes what `path`, the entry `name` of the open folder `parent`, leads to. It works on
// descriptors, so that a folder replaced by a link meanwhile is not followed.
absl::Status RemoveAt(int parent, const std::string& name, const std::string& path);

// Takes over `fd`, an open folder.
absl::Status RemoveContents(int fd, const std::string& path) {
  DIR* const dir = fdopendir(fd);
  if (dir == nullptr) {
    const int error = errno;
    close(fd);
    return SystemError("open", path, error);
  }
  const absl::StatusOr<std::vector<std::string>> names = ReadNames(dir, path);
  absl::Status status = names.status();
  for (size_t i = 0; status.ok() && i < names->size(); ++i) {
    status = RemoveAt(dirfd(dir), (*names)[i], JoinPath(path, (*names)[i]));
  }
  closedir(dir);
  return status;
}

absl::Status RemoveAt(int parent, const std::string& name, const std::string& path) {
  if (unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT) return absl::OkStatus();
  if (errno != EISDIR && errno != EPERM) return SystemError("remove", path, errno);
  const int error = errno;
  const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  const int fd = Retry([&] { return openat(parent, name.c_str(), flags); });
  if (fd < 0) return SystemError("remove", path, errno == ENOTDIR ? error : errno);
  RETURN_IF_ERROR(RemoveContents(fd, path));
  if (unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0) return absl::OkStatus();
  return SystemError("remove", path, errno);
}

class PosixFileSystem : public FileSystem {
 public:
  absl::StatusOr<std::string> ReadFile(const std::string& path) override;
  absl::StatusOr<MappedFile> Map(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::Status MakeDirs(const std::string& path) override;
  absl::Status SyncDir(const std::string& path) override;
  absl::StatusOr<int64_t> FreeBytes(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override;

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    return OpenForWriting(path, O_TRUNC);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path) override {
    return OpenForWriting(path, O_APPEND);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    struct stat old;
    const bool exists = stat(to.c_str(), &old) == 0;
    if (LeadsToAStream(to) || (exists && !S_ISREG(old.st_mode) && !S_ISDIR(old.st_mode))) {
      return absl::FailedPreconditionError(absl::StrCat(
          "rename ", from, " to ", to, ": a device or pipe is not replaced by a file"));
    }
    if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return SystemError(absl::StrCat("rename ", from, " to"), to, errno);
  }
  absl::Status Remove(const std::string& path) override {
    if (remove(path.c_str()) == 0) return absl::OkStatus();
    return SystemError("remove", path, errno);
  }
  absl::Status RemoveTree(const std::string& path) override {
    return RemoveAt(AT_FDCWD, path, path);
  }
  bool Exists(const std::string& path) override {
    struct stat info;
    return stat(path.c_str(), &info) == 0;
  }
  bool IsDirectory(const std::string& path) override {
    struct stat info;
    return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  }
  absl::StatusOr<int64_t> FileSize(const std::string& path) override {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) return SystemError("stat", path, errno);
    return int64_t{info.st_size};
  }

 private:
  static absl::StatusOr<std::unique_ptr<WritableFile>> OpenForWriting(const std::string& path,
                                                                      int flag) {
    ASSIGN_OR_RETURN(FileDescriptor fd, Open(path, O_WRONLY | O_CREAT | flag));
    return std::make_unique<RealWritableFile>(path, std::move(fd));
  }
};

absl::StatusOr<std::string> PosixFileSystem::ReadFile(const std::string& path) {
  ASSIGN_OR_RETURN(const FileDescriptor fd, Open(path, O_RDONLY));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return SystemError("stat", path, errno);
  // The size is a hint only: files of /proc say 0, and a file may grow. One byte more than the
  // size lets the end be seen without growing the buffer.
  std::string data(static_cast<size_t>(std::max<int64_t>(info.st_size, 4095)) + 1, '\0');
  size_t length = 0;
  while (true) {
    const ssize_t got =
        Retry([&] { return read(fd.get(), data.data() + length, data.size() - length); });
    if (got < 0) return SystemError("read", path, errno);
    if (got == 0) break;
    length += static_cast<size_t>(got);
    if (!S_ISREG(info.st_mode) && length > kMostOfAStream) {
      return absl::FailedPreconditionError(absl::StrCat(
          "read ", path, ": no regular file, and more than ", kMostOfAStream, " bytes long"));
    }
    if (length == data.size()) data.resize(2 * data.size());
  }
  data.resize(length);
  return data;
}

absl::StatusOr<MappedFile> PosixFileSystem::Map(const std::string& path) {
  // A pipe is refused below, not waited for.
  ASSIGN_OR_RETURN(const FileDescriptor fd, Open(path, O_RDONLY | O_NONBLOCK));
  ASSIGN_OR_RETURN(const int64_t size, RegularSize(fd.get(), path));
  if (size == 0) return MappedFile();  // mmap refuses a length of 0
  void* const data =
      mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) return SystemError("map", path, errno);
  return MappedFile(static_cast<const char*>(data), size);
}

absl::StatusOr<std::vector<std::string>> PosixFileSystem::List(const std::string& path) {
  DIR* const dir = opendir(path.c_str());
  if (dir == nullptr) return SystemError("list", path, errno);
  absl::StatusOr<std::vector<std::string>> names = ReadNames(dir, path);
  closedir(dir);
  if (names.ok()) std::sort(names->begin(), names->end());
  return names;
}

absl::Status PosixFileSystem::MakeDirs(const std::string& path) {
  if (mkdir(path.c_str(), 0777) == 0) return absl::OkStatus();
  if (errno == ENOENT && DirName(path) != path) {
    RETURN_IF_ERROR(MakeDirs(DirName(path)));
    if (mkdir(path.c_str(), 0777) == 0) return absl::OkStatus();
  }
  const int error = errno;
  if (error == EEXIST && IsDirectory(path)) return absl::OkStatus();
  return SystemError("make folder", path, error);
}

absl::Status PosixFileSystem::SyncDir(const std::string& path) {
  ASSIGN_OR_RETURN(const FileDescriptor fd, Open(path, O_RDONLY | O_DIRECTORY));
  const int result = Retry([&] { return fsync(fd.get()); });
  // EINVAL: a file system whose folders need no sync.
  if (result != 0 && errno != EINVAL) return SystemError("sync folder", path, errno);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> PosixFileSystem::FreeBytes(const std::string& path) {
  struct statvfs info;
  if (Retry([&] { return statvfs(path.c_str(), &info); }) != 0) {
    return SystemError("free space of", path, errno);
  }
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

absl::StatusOr<std::unique_ptr<FileLock>> PosixFileSystem::Lock(const std::string& path) {
  while (true) {
    // A pipe is not waited for.
    ASSIGN_OR_RETURN(FileDescriptor fd, Open(path, O_RDONLY | O_NONBLOCK));
    struct stat locked, named;
    if (fstat(fd.get(), &locked) != 0) return SystemError("stat", path, errno);
    if (!S_ISREG(locked.st_mode) && !S_ISDIR(locked.st_mode)) {
      return std::make_unique<RealFileLock>(std::move(fd));
    }
    if (Retry([&] { return flock(fd.get(), LOCK_EX | LOCK_NB); }) != 0) {
      if (errno == EWOULDBLOCK) return std::unique_ptr<FileLock>();
      const absl::Status status = SystemError("lock", path, errno);
      // EBADF: a network file system that wants the file opened for writing.
      const bool none = errno == ENOLCK || errno == ENOSYS || errno == EOPNOTSUPP ||
                        errno == EINVAL || errno == EBADF;
      return none ? absl::UnimplementedError(status.message()) : status;
    }
    // The name may have gone to another file since it was opened; that one is meant.
    if (stat(path.c_str(), &named) == 0 && locked.st_dev == named.st_dev &&
        locked.st_ino == named.st_ino) {
      return std::make_unique<RealFileLock>(std::move(fd));
    }
  }
}

}  // namespace

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  CHECK_EQ(munmap(const_cast<char*>(data_), static_cast<size_t>(size_)), 0) << std::strerror(errno);
}

absl::Status FileSystem::WriteFileAtomically(const std::string& path, absl::string_view data) {
  const std::string temporary = path + ".tmp";
  const auto write = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, Create(temporary));
    RETURN_IF_ERROR(file->Append({data.data(), data.size()}));
    // Before the rename: else a crash could leave the new name with none of the data.
    RETURN_IF_ERROR(file->Sync());
    RETURN_IF_ERROR(file->Close());
    return Rename(temporary, path);
  };
  if (absl::Status status = write(); !status.ok()) {
    Remove(temporary).IgnoreError();  // the first error is the one to report
    return status;
  }
  return SyncDir(DirName(path));
}

FileSystem& RealFileSystem() {
  static PosixFileSystem* const file_system = new PosixFileSystem;
  return *file_system;
}

std::string JoinPath(absl::string_view dir, absl::string_view name) {
  if (dir.empty() || absl::StartsWith(name, "/")) return std::string(name);
  return absl::StrCat(dir, absl::EndsWith(dir, "/") ? "" : "/", name);
}

std::string DirName(absl::string_view path) {
  while (path.size() > 1 && absl::EndsWith(path, "/")) path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  path = path.substr(0, slash);
  while (absl::EndsWith(path, "/")) path.remove_suffix(1);
  return path.empty() ? "/" : std::string(path);
}

}  // namespace colossus
