#include "trainers/lib/checkpoint/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/mapped_pages.h"
#include "base/status.h"

namespace colossus {
namespace {

constexpr int64_t kPieceBytes = int64_t{4} << 20;

// The number of "step-20" or "step-20.tmp"; none for other names.
std::optional<int64_t> StepOf(absl::string_view name) {
  absl::ConsumeSuffix(&name, kTemporarySuffix);
  int64_t step;
  if (!absl::ConsumePrefix(&name, "step-") || !absl::SimpleAtoi(name, &step) || step < 0) {
    return std::nullopt;
  }
  return absl::StrCat(step) == name ? std::optional<int64_t>(step) : std::nullopt;
}

bool IsTemporary(absl::string_view name) { return absl::EndsWith(name, kTemporarySuffix); }

absl::Status CheckChecksum(FileSystem& files, const std::string& name, const PiecesFile& file) {
  ASSIGN_OR_RETURN(const MappedFile mapped, files.Map(name));
  ContentHash hash;
  for (int64_t at = 0; at < mapped.size(); at += kPieceBytes) {
    const auto piece = mapped.bytes().subspan(
        static_cast<size_t>(at), static_cast<size_t>(std::min(kPieceBytes, mapped.size() - at)));
    hash.Add(piece);
    DropPages(piece);
  }
  if (hash.Text() == file.checksum) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": its checksum does not match the manifest: damaged"));
}

// The folders of steps, newest first, a finished one before a temporary one.
absl::StatusOr<std::vector<std::string>> Candidates(FileSystem& files, const std::string& folder) {
  if (!files.Exists(folder)) return std::vector<std::string>();
  ASSIGN_OR_RETURN(std::vector<std::string> names, files.List(folder));
  std::erase_if(names, [](const std::string& name) { return !StepOf(name).has_value(); });
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return std::make_pair(*StepOf(a), !IsTemporary(a)) >
           std::make_pair(*StepOf(b), !IsTemporary(b));
  });
  return names;
}

// What rank 0 sees.
absl::StatusOr<std::vector<std::string>> CandidatesOnAll(FileSystem& files,
                                                         const std::string& folder,
                                                         RankGroup group) {
  absl::StatusOr<std::vector<std::string>> own = std::vector<std::string>();
  if (group.first()) own = Candidates(files, folder);
  RETURN_IF_ERROR(group.AgreeOnFirst(own.status(), "list checkpoints"));
  ASSIGN_OR_RETURN(const std::string text,
                   group.FromFirst(absl::StrJoin(*own, "/"), "list checkpoints"));
  const std::vector<std::string> names = absl::StrSplit(text, '/', absl::SkipEmpty());
  return names;
}

}  // namespace

std::string CheckpointFolder(const std::string& out) { return JoinPath(out, "checkpoints"); }

std::string CheckpointPath(const std::string& folder, int64_t step) {
  return JoinPath(folder, absl::StrCat("step-", step));
}

absl::StatusOr<Checkpoint> Checkpoint::Open(FileSystem& files, const std::string& path, int rank,
                                            int ranks) {
  ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(files, path));
  RETURN_IF_ERROR(CheckSizes(files, path, manifest));
  for (size_t f = static_cast<size_t>(rank); ranks > 0 && f < manifest.files.size();
       f += static_cast<size_t>(ranks)) {
    RETURN_IF_ERROR(
        CheckChecksum(files, JoinPath(path, manifest.files[f].name), manifest.files[f]));
  }
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  checkpoint.record_ = std::move(manifest.record);
  RETURN_IF_ERROR(checkpoint.OpenFiles(files, manifest.files));
  return checkpoint;
}

absl::Status Checkpoint::OpenFiles(FileSystem& files, const std::vector<PiecesFile>& listed) {
  for (size_t s = 0; s < record_.states.size(); ++s) index_[record_.states[s].name] = s;
  places_.resize(record_.states.size());
  for (const PiecesFile& file : listed) {
    ASSIGN_OR_RETURN(SafetensorsFile opened,
                     SafetensorsFile::Open(files, JoinPath(path_, file.name)));
    files_.push_back(std::move(opened));
    for (const StoredPiece& stored : file.pieces) {
      RETURN_IF_ERROR(CheckEntry(file, stored));
      places_[index_.at(stored.saved.state)].push_back({files_.size() - 1, stored});
    }
  }
  return absl::OkStatus();
}

// The tensor's dims do not matter: its elements are the piece's, in the piece's order.
absl::Status Checkpoint::CheckEntry(const PiecesFile& file, const StoredPiece& stored) const {
  const SafetensorsEntry* entry = files_.back().Find(stored.tensor);
  const SavedState& state = record_.states[index_.at(stored.saved.state)];
  if (entry != nullptr && entry->dtype == state.type.dtype &&
      entry->elements == stored.saved.piece.count) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(JoinPath(path_, file.name), ": state '",
                                                 state.name, "' is not as the manifest says"));
}

const SavedState* Checkpoint::Find(absl::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &record_.states[found->second];
}

absl::Status Checkpoint::ReadPiece(absl::string_view name, const StatePiece& wanted,
                                   void* dst) const {
  const auto found = index_.find(name);
  if (found == index_.end()) {
    return absl::NotFoundError(absl::StrCat(path_, ": no state '", name, "'"));
  }
  const SavedState& state = record_.states[found->second];
  CHECK_OK(CheckPiece(wanted, state.type.dims));
  const int64_t size = SizeOf(state.type.dtype);
  for (const Place& place : places_[found->second]) {
    ASSIGN_OR_RETURN(const std::span<const char> data,
                     files_[place.file].data(place.stored.tensor));
    int64_t begin = -1, end = 0;  // bytes of the piece that were read
    ForEachRun(wanted, place.stored.saved.piece, [&](int64_t to, int64_t from, int64_t count) {
      std::memcpy(static_cast<char*>(dst) + to * size, data.data() + from * size,
                  static_cast<size_t>(count * size));
      if (begin < 0) begin = from * size;
      end = (from + count) * size;
    });
    if (begin >= 0) {
      DropPages(data.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<HostTensor> Checkpoint::Read(absl::string_view name) const {
  const SavedState* state = Find(name);
  if (state == nullptr) {
    return absl::NotFoundError(absl::StrCat(path_, ": no state '", name, "'"));
  }
  HostTensor values(state->type);
  RETURN_IF_ERROR(ReadPiece(name, WholePiece(state->type.dims), values.raw()));
  return values;
}

bool IsCheckpoint(FileSystem& files, const std::string& path) {
  return files.Exists(JoinPath(path, kManifestName));
}

absl::StatusOr<std::optional<Checkpoint>> FindNewest(FileSystem& files, const std::string& folder,
                                                     Log& log, RankGroup group) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, CandidatesOnAll(files, folder, group));
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    absl::StatusOr<Checkpoint> checkpoint =
        IsTemporary(name) ? absl::InvalidArgumentError("its save was interrupted")
                          : Checkpoint::Open(files, path, group.rank(), group.size());
    absl::Status verdict;
    RETURN_IF_ERROR(group.Judge(checkpoint.status(), "find checkpoint", &verdict));
    if (verdict.ok()) return std::optional<Checkpoint>(*std::move(checkpoint));
    log.Warning(absl::StrCat("checkpoint ", path, " is passed over: ", verdict.message()));
  }
  return std::nullopt;
}

absl::Status KeepNewest(FileSystem& files, const std::string& folder, int64_t newest,
                        int64_t keep) {
  CHECK_GE(keep, 1);
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(folder));
  std::vector<int64_t> complete;
  for (const std::string& name : names) {
    if (!StepOf(name).has_value() || IsTemporary(name) || *StepOf(name) > newest) continue;
    const std::string path = JoinPath(folder, name);
    const absl::StatusOr<Manifest> manifest = ReadManifest(files, path);
    const absl::Status status =
        manifest.ok() ? CheckSizes(files, path, *manifest) : manifest.status();
    if (status.ok()) complete.push_back(*StepOf(name));
    // What cannot be read now may be complete all the same.
    if (!status.ok() && !absl::IsInvalidArgument(status) && !absl::IsNotFound(status)) {
      return status;
    }
  }
  std::sort(complete.rbegin(), complete.rend());
  if (complete.empty() || complete[0] != newest) {
    return absl::DataLossError(absl::StrCat(CheckpointPath(folder, newest),
                                            " cannot be read back; older checkpoints are kept"));
  }
  if (complete.size() > static_cast<size_t>(keep)) complete.resize(static_cast<size_t>(keep));
  for (const std::string& name : names) {
    if (!StepOf(name).has_value()) continue;
    const bool kept = !IsTemporary(name) &&
                      std::find(complete.begin(), complete.end(), *StepOf(name)) != complete.end();
    if (!kept) RETURN_IF_ERROR(files.RemoveTree(JoinPath(folder, name)));
  }
  return absl::OkStatus();
}

}  // namespace colossus
