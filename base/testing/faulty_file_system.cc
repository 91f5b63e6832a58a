#include "base/testing/faulty_file_system.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace colossus {
namespace {

using Guard = std::lock_guard<std::mutex>;

std::string WithoutSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

bool IsWithin(const std::string& path, const std::string& tree) {
  return path == tree || absl::StartsWith(path, tree + "/");
}

// Where `path` is after `from` was renamed to `to`.
std::string Moved(const std::string& path, const std::string& from, const std::string& to) {
  return IsWithin(path, from) ? to + path.substr(from.size()) : path;
}

// What a test's own file system does not refuse; the exception is a thing that is gone already.
void MustWork(const absl::Status& status) {
  CHECK(status.ok() || absl::IsNotFound(status)) << status;
}

void Overwrite(FileSystem& base, const std::string& path, absl::string_view data) {
  absl::StatusOr<std::unique_ptr<WritableFile>> file = base.Create(path);
  MustWork(file.status());
  if (!file.ok()) return;
  MustWork((*file)->Append({data.data(), data.size()}));
  MustWork((*file)->Close());
}

}  // namespace

class FaultyFileSystem::File : public WritableFile {
 public:
  File(FaultyFileSystem& owner, std::string path, std::unique_ptr<WritableFile> file,
       std::shared_ptr<Contents> contents)
      : owner_(owner), path_(std::move(path)), file_(std::move(file)),
        contents_(std::move(contents)) {}

  absl::Status Append(std::span<const char> data) override {
    const Guard lock(owner_.mutex_);
    return owner_.Append(*file_, *contents_, path_, data);
  }
  absl::Status Sync() override {
    const Guard lock(owner_.mutex_);
    RETURN_IF_ERROR(owner_.Begin("sync", path_));
    RETURN_IF_ERROR(file_->Sync());
    contents_->synced = contents_->size;
    return absl::OkStatus();
  }
  absl::Status Close() override {
    const Guard lock(owner_.mutex_);
    RETURN_IF_ERROR(owner_.Begin("close", path_));
    return file_->Close();
  }

 private:
  FaultyFileSystem& owner_;
  const std::string path_;
  const std::unique_ptr<WritableFile> file_;
  const std::shared_ptr<Contents> contents_;
};

FaultyFileSystem::FaultyFileSystem(FileSystem& base, Faults faults)
    : base_(base), faults_(std::move(faults)) {
  CHECK(!faults_.failure.ok()) << "Faults.failure is an error";
}

int64_t FaultyFileSystem::operations() const {
  const Guard lock(mutex_);
  return operations_;
}

int64_t FaultyFileSystem::bytes() const {
  const Guard lock(mutex_);
  return bytes_;
}

bool FaultyFileSystem::killed() const {
  const Guard lock(mutex_);
  return killed_;
}

void FaultyFileSystem::Kill() {
  const Guard lock(mutex_);
  if (!killed_) Die();
}

absl::Status FaultyFileSystem::Dead(absl::string_view operation, const std::string& path) const {
  return absl::AbortedError(absl::StrCat(operation, " ", path, ": the process was killed"));
}

absl::Status FaultyFileSystem::Begin(absl::string_view operation, const std::string& path) {
  if (killed_) return Dead(operation, path);
  const int64_t number = operations_++;
  if (number == faults_.fail_operation) {
    return Annotate(faults_.failure, absl::StrCat(operation, " ", path));
  }
  if (number == faults_.kill_operation) {
    Die();
    return Dead(operation, path);
  }
  return absl::OkStatus();
}

absl::Status FaultyFileSystem::Append(WritableFile& file, Contents& contents,
                                      const std::string& path, std::span<const char> data) {
  const auto write = [&](int64_t count) -> absl::Status {
    RETURN_IF_ERROR(file.Append(data.first(static_cast<size_t>(count))));
    contents.size += count;
    bytes_ += count;
    return absl::OkStatus();
  };
  const auto size = static_cast<int64_t>(data.size());
  if (!killed_ && operations_ == faults_.kill_operation) RETURN_IF_ERROR(write(size / 2));
  RETURN_IF_ERROR(Begin("write", path));
  if (faults_.kill_after_bytes && size > *faults_.kill_after_bytes - bytes_) {
    RETURN_IF_ERROR(write(std::max<int64_t>(*faults_.kill_after_bytes - bytes_, 0)));
    Die();
    return Dead("write", path);
  }
  if (faults_.disk_bytes && size > *faults_.disk_bytes - bytes_) {
    RETURN_IF_ERROR(write(std::max<int64_t>(*faults_.disk_bytes - bytes_, 0)));
    return absl::ResourceExhaustedError(
        absl::StrCat("write ", path, ": No space left on device"));
  }
  return write(size);
}

absl::StatusOr<std::string> FaultyFileSystem::ReadFile(const std::string& path) {
  const Guard lock(mutex_);
  RETURN_IF_ERROR(Begin("read", path));
  return base_.ReadFile(path);
}

absl::StatusOr<MappedFile> FaultyFileSystem::Map(const std::string& path) {
  const Guard lock(mutex_);
  RETURN_IF_ERROR(Begin("map", path));
  return base_.Map(path);
}

absl::StatusOr<std::unique_ptr<WritableFile>> FaultyFileSystem::Create(const std::string& path) {
  const Guard lock(mutex_);
  RETURN_IF_ERROR(Begin("create", path));
  const bool existed = base_.Exists(path);
  ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, base_.Create(path));
  if (!existed) NoteCreated(path);
  auto contents = std::make_shared<Contents>();
  files_[path] = contents;
  return std::make_unique<File>(*this, path, std::move(file), std::move(contents));
}

absl::StatusOr<std::unique_ptr<WritableFile>> FaultyFileSystem::OpenForAppend(
    const std::string& path) {
  const Guard lock(mutex_);
  RETURN_IF_ERROR(Begin("open", path));
  const bool existed = base_.Exists(path);
  ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, base_.OpenForAppend(path));
  if (!existed) NoteCreated(path);
  std::shared_ptr<Contents>& contents = files_[path];
  if (contents == nullptr) {
    // What a file held before this file system first wrote to it counts as synced.
    ASSIGN_OR_RETURN(const int64_t size, base_.FileSize(path));
    contents = std::make_shared<Contents>(Contents{.size = size, .synced = size});
  }
  return std::make_unique<File>(*this, path, std::move(file), contents);
}

absl::Status FaultyFileSystem::Rename(const std::string& from, const std::string& to) {
  const Guard lock(mutex_);
  RETURN_IF_ERROR(Begin("rename", from));
  NameChange change{.from = WithoutSlash(from), .to = WithoutSlash(to), .replaced = {}};
  if (base_.Exists(to) && !base_.IsDirectory(to)) {
    ASSIGN_OR_RETURN(change.replaced, base_.ReadFile(to));
  }
  RETURN_IF_ERROR(base_.Rename(from, to));
  if (change.from == change.to) return absl::OkStatus();
  ForgetTree(change.to);
  std::map<std::string, std::shared_ptr<Contents>> moved;
  for (const auto& [path, contents] : files_) moved[Moved(path, change.from, change.to)] = contents;
  files_ = std::move(moved);
  changes_.push_back(std::move(change));
  return absl::OkStatus();
}

absl::Status FaultyFileSystem::Remove(const std::string& path) {
  const Guard lock(mutex_);
  RETURN_IF_ERROR(Begin("remove", path));
  RETURN_IF_ERROR(base_.Remove(path));
  ForgetTree(WithoutSlash(path));
  return absl::OkStatus();
}

absl::Status FaultyFileSystem::RemoveTree(const std::string& path) {
  const Guard lock(mutex_);
  RETURN_IF_ERROR(Begin("remove", path));
  RETURN_IF_ERROR(base_.RemoveTree(path));
  ForgetTree(WithoutSlash(path));
  return absl::OkStatus();
}

absl::Status FaultyFileSystem::MakeDirs(const std::string& path) {
  const Guard lock(mutex_);
  RETURN_IF_ERROR(Begin("make folder", path));
  std::vector<std::string> missing;  // innermost first
  for (std::string dir = WithoutSlash(path); !base_.Exists(dir); dir = DirName(dir)) {
    missing.push_back(dir);
  }
  RETURN_IF_ERROR(base_.MakeDirs(path));
  for (auto dir = missing.rbegin(); dir != missing.rend(); ++dir) NoteCreated(*dir);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> FaultyFileSystem::List(const std::string& path) {
  const Guard lock(mutex_);
  RETURN_IF_ERROR(Begin("list", path));
  return base_.List(path);
}

bool FaultyFileSystem::Exists(const std::string& path) {
  const Guard lock(mutex_);
  return !killed_ && base_.Exists(path);
}

bool FaultyFileSystem::IsDirectory(const std::string& path) {
  const Guard lock(mutex_);
  return !killed_ && base_.IsDirectory(path);
}

absl::Status FaultyFileSystem::SyncDir(const std::string& path) {
  const Guard lock(mutex_);
  RETURN_IF_ERROR(Begin("sync folder", path));
  RETURN_IF_ERROR(base_.SyncDir(path));
  const std::string dir = WithoutSlash(path);
  // From the last change on, so that a change's later renames are still there to tell its path.
  for (size_t i = changes_.size(); i-- > 0;) {
    if (DirName(PathNow(i)) != dir) continue;
    const NameChange synced = changes_[i];
    changes_.erase(changes_.begin() + static_cast<ptrdiff_t>(i));
    if (synced.from.empty()) continue;
    // Nothing will undo this rename now: older changes in the tree it moved are told by new paths.
    for (size_t older = 0; older < i; ++older) {
      changes_[older].to = Moved(changes_[older].to, synced.from, synced.to);
      changes_[older].from = Moved(changes_[older].from, synced.from, synced.to);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> FaultyFileSystem::FileSize(const std::string& path) {
  const Guard lock(mutex_);
  RETURN_IF_ERROR(Begin("stat", path));
  return base_.FileSize(path);
}

absl::StatusOr<int64_t> FaultyFileSystem::FreeBytes(const std::string& path) {
  const Guard lock(mutex_);
  RETURN_IF_ERROR(Begin("free space of", path));
  ASSIGN_OR_RETURN(const int64_t free, base_.FreeBytes(path));
  if (!faults_.disk_bytes) return free;
  return std::min(free, std::max<int64_t>(*faults_.disk_bytes - bytes_, 0));
}

absl::StatusOr<std::unique_ptr<FileLock>> FaultyFileSystem::Lock(const std::string& path) {
  const Guard lock(mutex_);
  RETURN_IF_ERROR(Begin("lock", path));
  return base_.Lock(path);
}

void FaultyFileSystem::NoteCreated(const std::string& path) {
  changes_.push_back({.from = "", .to = WithoutSlash(path), .replaced = {}});
}

// Where the name that a change made is now.
std::string FaultyFileSystem::PathNow(size_t change) const {
  std::string path = changes_[change].to;
  for (size_t later = change + 1; later < changes_.size(); ++later) {
    if (changes_[later].from.empty()) continue;
    path = Moved(path, changes_[later].from, changes_[later].to);
  }
  return path;
}

void FaultyFileSystem::ForgetTree(const std::string& path) {
  std::erase_if(files_, [&](const auto& file) { return IsWithin(file.first, path); });
}

void FaultyFileSystem::Die() {
  killed_ = true;
  if (!faults_.lose_unsynced) return;
  CutUnsyncedData();
  UndoNameChanges();
}

void FaultyFileSystem::CutUnsyncedData() {
  for (const auto& [path, contents] : files_) {
    if (contents->synced == contents->size) continue;
    const absl::StatusOr<std::string> data = base_.ReadFile(path);
    MustWork(data.status());
    if (data.ok()) Overwrite(base_, path, data->substr(0, static_cast<size_t>(contents->synced)));
  }
}

void FaultyFileSystem::UndoNameChanges() {
  // Last first: each change is undone in the state it had left behind, so its paths are right.
  for (; !changes_.empty(); changes_.pop_back()) {
    const NameChange& change = changes_.back();
    if (change.from.empty()) {
      MustWork(base_.RemoveTree(change.to));
      continue;
    }
    MustWork(base_.Rename(change.to, change.from));
    if (change.replaced) Overwrite(base_, change.to, *change.replaced);
  }
}

}  // namespace colossus
