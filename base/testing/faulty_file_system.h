// A file system that fails on purpose, to test what must survive full disks and crashes.
//
// It passes every operation on to another file system and counts it. At the chosen places an
// operation fails, the disk is full, or the process "dies": that operation and all later ones fail,
// and what was not synced is lost. A test then looks at what is left through the other file system.
// Thread-safe. The other file system and this one outlive every file opened through it. A file goes
// by one path: "a" and "./a" would count as two.
//
//   FaultyFileSystem counting(RealFileSystem());
//   ASSERT_OK(Save(counting, dir));
//   for (int64_t k = 0; k < counting.operations(); ++k) {
//     ResetTo(old_checkpoint, dir);
//     FaultyFileSystem dying(RealFileSystem(), {.kill_operation = k, .lose_unsynced = true});
//     EXPECT_FALSE(Save(dying, dir).ok());
//     EXPECT_OK(Load(RealFileSystem(), dir)) << "killed at operation " << k;
//   }
#ifndef COLOSSUS_BASE_TESTING_FAULTY_FILE_SYSTEM_H_
#define COLOSSUS_BASE_TESTING_FAULTY_FILE_SYSTEM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"

namespace colossus {

// Operations are numbered from 0 as they come: every method of FileSystem and of its files but
// Exists and IsDirectory. Bytes are those appended to any file.
struct Faults {
  // This operation alone fails, with `failure`, and does nothing.
  std::optional<int64_t> fail_operation = std::nullopt;
  absl::Status failure = absl::UnavailableError("injected failure");
  // Room for this many bytes: an Append beyond it writes what fits, then is ResourceExhausted.
  // Removing files makes no room.
  std::optional<int64_t> disk_bytes = std::nullopt;
  // The process dies at this operation. An Append writes the first half of its data before that.
  std::optional<int64_t> kill_operation = std::nullopt;
  // The process dies in the Append that would go beyond this many bytes, after writing so many.
  std::optional<int64_t> kill_after_bytes = std::nullopt;
  // On death also the machine fails, in the worst way POSIX allows: data not synced is cut off,
  // and names made or renamed since their folder's last SyncDir are as before. Removals stay.
  bool lose_unsynced = false;
};

class FaultyFileSystem : public FileSystem {
 public:
  explicit FaultyFileSystem(FileSystem& base, Faults faults = {});

  // Operations begun and bytes appended so far.
  int64_t operations() const;
  int64_t bytes() const;
  // True after death; every operation then is Aborted, Exists and IsDirectory are false.
  bool killed() const;
  // Dies now.
  void Kill();

  absl::StatusOr<std::string> ReadFile(const std::string& path) override;
  absl::StatusOr<MappedFile> Map(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status RemoveTree(const std::string& path) override;
  absl::Status MakeDirs(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  bool Exists(const std::string& path) override;
  bool IsDirectory(const std::string& path) override;
  absl::Status SyncDir(const std::string& path) override;
  absl::StatusOr<int64_t> FileSize(const std::string& path) override;
  absl::StatusOr<int64_t> FreeBytes(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override;

 private:
  class File;
  // The state of one file's data, shared by the file and the table of paths.
  struct Contents {
    int64_t size = 0, synced = 0;
  };
  // A name made (`from` empty) or renamed, and not yet synced. Paths are as they were then.
  struct NameChange {
    std::string from, to;
    std::optional<std::string> replaced;  // what the file at `to` held before a rename
  };

  absl::Status Begin(absl::string_view operation, const std::string& path);
  absl::Status Dead(absl::string_view operation, const std::string& path) const;
  absl::Status Append(WritableFile& file, Contents& contents, const std::string& path,
                      std::span<const char> data);
  void NoteCreated(const std::string& path);
  std::string PathNow(size_t change) const;
  void ForgetTree(const std::string& path);
  void Die();
  void CutUnsyncedData();
  void UndoNameChanges();

  FileSystem& base_;
  const Faults faults_;
  mutable std::mutex mutex_;  // guards all below and the Contents
  int64_t operations_ = 0, bytes_ = 0;
  bool killed_ = false;
  std::map<std::string, std::shared_ptr<Contents>> files_;  // written here, by present path
  std::vector<NameChange> changes_;                         // in the order made
};

}  // namespace colossus

#endif  // COLOSSUS_BASE_TESTING_FAULTY_FILE_SYSTEM_H_
