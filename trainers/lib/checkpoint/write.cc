#include "trainers/lib/checkpoint/write.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/io/safetensors_writer.h"
#include "trainers/lib/checkpoint/checkpoint.h"

namespace colossus {
namespace {

std::string FileName(int rank) {
  return rank == 0 ? "states.safetensors" : absl::StrCat("states-", rank, ".safetensors");
}

std::string TemporaryPath(const std::string& folder, const CheckpointRecord& record) {
  return CheckpointPath(folder, record.counters.attempted) + kTemporarySuffix;
}

std::map<std::string, DType> DTypes(const CheckpointRecord& record) {
  std::map<std::string, DType> dtypes;
  for (const SavedState& state : record.states) dtypes[state.name] = state.type.dtype;
  return dtypes;
}

// What the file of these pieces holds: a whole box as it is, a range of one in a row. A state's
// second piece in a file has a number behind its name.
std::vector<SafetensorsTensor> TensorsOf(const CheckpointRecord& record,
                                         const std::vector<SavedPiece>& pieces) {
  const std::map<std::string, DType> dtypes = DTypes(record);
  std::map<std::string, int> seen;
  std::vector<SafetensorsTensor> tensors;
  for (const SavedPiece& saved : pieces) {
    const int number = seen[saved.state]++;
    std::vector<int64_t> dims = {saved.piece.count};
    if (IsBox(saved.piece)) dims.assign(saved.piece.extent.begin(), saved.piece.extent.end());
    tensors.push_back({number == 0 ? saved.state : absl::StrCat(saved.state, "#", number),
                       dtypes.at(saved.state), std::move(dims)});
  }
  return tensors;
}

int64_t WantedBytes(const CheckpointRecord& record, const std::vector<SavedPiece>& pieces) {
  const std::map<std::string, DType> dtypes = DTypes(record);
  int64_t bytes = 0;
  for (const SavedPiece& saved : pieces) {
    bytes += saved.piece.count * SizeOf(dtypes.at(saved.state));
  }
  return bytes;
}

// `wanted`: bytes of all ranks' values; headers and the manifest are small beside them.
std::string RoomText(int64_t wanted, int64_t free) {
  return absl::StrCat("wants ", wanted, " bytes for the values alone, ", free,
                      " are free; make room: a checkpoint is whole before an older one goes");
}

// `status` of a write that failed, with what there is.
absl::Status WithRoom(FileSystem& files, const std::string& folder, int64_t wanted,
                      const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return status;
  const absl::StatusOr<int64_t> free = files.FreeBytes(folder);
  if (!free.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "; the checkpoint ", RoomText(wanted, *free)));
}

// Makes the folder to write in. A checkpoint that cannot fit is not begun.
absl::Status Begin(FileSystem& files, const std::string& folder, const CheckpointRecord& record,
                   int64_t wanted) {
  RETURN_IF_ERROR(files.MakeDirs(folder));
  const absl::StatusOr<int64_t> free = files.FreeBytes(folder);
  if (free.ok() && wanted > *free) {  // else the write will tell
    return absl::ResourceExhaustedError(absl::StrCat(
        CheckpointPath(folder, record.counters.attempted), ": ", RoomText(wanted, *free)));
  }
  const std::string temporary = TemporaryPath(folder, record);
  absl::Status status = files.RemoveTree(temporary);
  if (status.ok()) status = files.MakeDirs(temporary);
  return WithRoom(files, folder, wanted, status);
}

// `texts`: of all ranks' files.
absl::Status Finish(FileSystem& files, const std::string& folder, const CheckpointRecord& record,
                    const std::vector<std::string>& texts) {
  Manifest manifest = {record, {}};
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(PiecesFile file, ParsePiecesFile(text));
    manifest.files.push_back(std::move(file));
  }
  return FinishCheckpoint(files, folder, manifest);
}

absl::Status WriteTogether(FileSystem& files, const std::string& folder,
                           const CheckpointRecord& record, const std::vector<SavedPiece>& pieces,
                           const PieceReader& read, int64_t wanted, RankGroup group) {
  const PieceReader beating = [&](size_t piece, int64_t offset, void* dst, int64_t bytes) {
    group.Beat();
    return read(piece, offset, dst, bytes);
  };
  absl::StatusOr<PiecesFile> own = WritePieces(files, TemporaryPath(folder, record), group.rank(),
                                               record, pieces, beating, group.size());
  RETURN_IF_ERROR(group.Agree(WithRoom(files, folder, wanted, own.status()), "save/values"));
  ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                   group.Gather(ToText(*own), "save/manifest"));
  absl::Status finished;
  if (group.first()) {
    finished = WithRoom(files, folder, wanted, Finish(files, folder, record, texts));
  }
  return group.AgreeOnFirst(finished, "save/finish");
}

}  // namespace

absl::StatusOr<PiecesFile> WritePieces(FileSystem& files, const std::string& temporary, int rank,
                                       const CheckpointRecord& record,
                                       const std::vector<SavedPiece>& pieces,
                                       const PieceReader& read, int ranks) {
  PiecesFile file;
  file.name = FileName(rank);
  const std::vector<SafetensorsTensor> tensors = TensorsOf(record, pieces);
  std::map<std::string, size_t> piece_of;  // by the tensor's name
  for (size_t p = 0; p < pieces.size(); ++p) {
    file.pieces.push_back({tensors[p].name, pieces[p]});
    piece_of[tensors[p].name] = p;
  }
  ContentHash hash;
  ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsWriter> writer,
                   SafetensorsWriter::Begin(files, JoinPath(temporary, file.name), tensors, {},
                                            [&](std::span<const char> bytes) { hash.Add(bytes); }));
  const int64_t most = StagingBytes(record.states, ranks);
  std::vector<char> buffer(static_cast<size_t>(most));
  for (const SafetensorsTensor& tensor : writer->order()) {
    for (int64_t at = 0; at < tensor.bytes(); at += most) {
      const int64_t bytes = std::min(most, tensor.bytes() - at);
      RETURN_IF_ERROR(read(piece_of.at(tensor.name), at, buffer.data(), bytes));
      RETURN_IF_ERROR(writer->Append(tensor.name, {buffer.data(), static_cast<size_t>(bytes)}));
    }
  }
  RETURN_IF_ERROR(writer->Finish());
  file.bytes = hash.bytes();
  file.checksum = hash.Text();
  return file;
}

absl::Status FinishCheckpoint(FileSystem& files, const std::string& folder,
                              const Manifest& manifest) {
  const std::string path = CheckpointPath(folder, manifest.record.counters.attempted);
  const std::string temporary = path + kTemporarySuffix;
  // The manifest comes last: with it the folder would be complete but for its name.
  RETURN_IF_ERROR(files.WriteFileAtomically(JoinPath(temporary, kManifestName), ToText(manifest)));
  // Only a damaged one can be in the way: a run never saves a step that it resumed from.
  RETURN_IF_ERROR(files.RemoveTree(path));
  RETURN_IF_ERROR(files.Rename(temporary, path));
  RETURN_IF_ERROR(files.SyncDir(folder));
  return files.SyncDir(DirName(folder));
}

absl::Status WriteCheckpoint(FileSystem& files, const std::string& folder,
                             const CheckpointRecord& record, const std::vector<SavedPiece>& pieces,
                             const PieceReader& read, RankGroup group) {
  ASSIGN_OR_RETURN(const int64_t wanted,
                   group.Sum(WantedBytes(record, pieces), "save/wanted bytes"));
  absl::Status begun;
  if (group.first()) begun = Begin(files, folder, record, wanted);
  RETURN_IF_ERROR(group.AgreeOnFirst(begun, "save/begin"));
  const absl::Status status = WriteTogether(files, folder, record, pieces, read, wanted, group);
  if (status.ok() || !group.first()) return status;
  // The first error is what the caller must know; a leftover does not look complete.
  (void)files.RemoveTree(TemporaryPath(folder, record));
  return status;
}

}  // namespace colossus
