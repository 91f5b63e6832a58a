// Files, as an interface: the real file system, or one that fails on purpose
// (base/testing/faulty_file_system.h).
//
// Code that must survive full disks and crashes takes a FileSystem&. Errors name the operation, the
// path and the system's reason: NotFound, AlreadyExists, PermissionDenied, ResourceExhausted (no
// space), FailedPrecondition (a folder where a file is needed or the like), else Unavailable.
// A FileSystem is thread-safe; a WritableFile and a MappedFile have one user at a time. Paths are
// taken as the system takes them. Sizes are bytes, 64 bits.
//
//   RETURN_IF_ERROR(fs.WriteFileAtomically("run/latest", "step-100\n"));
//   ASSIGN_OR_RETURN(MappedFile weights, fs.Map("model.safetensors"));
//   Parse(weights.bytes());
#ifndef COLOSSUS_BASE_FILE_SYSTEM_H_
#define COLOSSUS_BASE_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace colossus {

// A file being written from front to back. Destroying it unclosed closes it and drops any error,
// so code that cares calls Close.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  // Adds all of `data`. After an error part of it may have been added.
  virtual absl::Status Append(std::span<const char> data) = 0;
  // Returns when what was appended survives a crash of the machine. The file's name does so only
  // after FileSystem::SyncDir of its folder.
  virtual absl::Status Sync() = 0;
  // Ends the use of the file; not a Sync. A second call is FailedPrecondition.
  virtual absl::Status Close() = 0;
};

// The bytes of a file, mapped read-only until destruction. Move-only. Reading is undefined (the
// system sends SIGBUS) where the file has been cut shorter meanwhile.
class MappedFile {
 public:
  MappedFile() = default;  // empty
  // Takes over a mapping of `size` bytes at `data` (munmap ends it); null only when size is 0.
  MappedFile(const char* data, int64_t size) : data_(data), size_(size) {}
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const char* data() const { return data_; }  // page-aligned; null for an empty file
  int64_t size() const { return size_; }
  std::span<const char> bytes() const { return {data_, static_cast<size_t>(size_)}; }

 private:
  const char* data_ = nullptr;
  int64_t size_ = 0;
};

// A lock held on a file or folder; destroying it gives it back.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // The whole file.
  virtual absl::StatusOr<std::string> ReadFile(const std::string& path) = 0;
  // The whole file without a copy; pages are read when touched. An empty file is fine.
  virtual absl::StatusOr<MappedFile> Map(const std::string& path) = 0;
  // A new empty file for writing; an old one of that name is emptied.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  // A file for writing at its end; made if missing.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path) = 0;

  // Atomic; a file at `to` is replaced. Survives a crash only after SyncDir of the folders of both.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // A file, a symbolic link (not what it leads to) or an empty folder.
  virtual absl::Status Remove(const std::string& path) = 0;
  // A folder with all it holds, or a file. Symbolic links are not followed. Ok if there is none.
  virtual absl::Status RemoveTree(const std::string& path) = 0;
  // A folder with all missing parents. Ok if it exists. Survives a crash as a file's name does.
  virtual absl::Status MakeDirs(const std::string& path) = 0;
  // Names (not paths) in a folder, sorted, without "." and "..".
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;
  // Following symbolic links. False also where the way there cannot be searched.
  virtual bool Exists(const std::string& path) = 0;
  virtual bool IsDirectory(const std::string& path) = 0;
  // Makes the names in a folder (made, renamed, removed) survive a crash of the machine.
  virtual absl::Status SyncDir(const std::string& path) = 0;
  virtual absl::StatusOr<int64_t> FileSize(const std::string& path) = 0;
  // Bytes this process may still write to the file system that holds `path`, which exists.
  virtual absl::StatusOr<int64_t> FreeBytes(const std::string& path) = 0;
  // Takes the lock of a file or folder that exists, without waiting; null: another holds it, in
  // this process or in another. It keeps out only others who ask for it. The system gives it back
  // when the process ends, however it ends; nothing is left in the file system. A pipe or a
  // device is nobody's: its lock is always free. Unimplemented: this file system has no locks.
  virtual absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) = 0;

  // Replaces the file so that at any moment, and after a crash at any moment, `path` holds all of
  // the old or all of the new data; once ok is returned, the new. By way of `path` + ".tmp", which
  // is removed again after an error where possible. REQUIRES: one writer of a path at a time.
  absl::Status WriteFileAtomically(const std::string& path, absl::string_view data);
};

// The process's file system; lives forever.
FileSystem& RealFileSystem();

// "a/b" and "c" give "a/b/c"; an absolute `name` or an empty `dir` gives `name`.
std::string JoinPath(absl::string_view dir, absl::string_view name);

// The folder that holds `path`: "a/b" for "a/b/c" and "a/b/c/", "." for "c", "/" for "/c".
std::string DirName(absl::string_view path);

}  // namespace colossus

#endif  // COLOSSUS_BASE_FILE_SYSTEM_H_
