// Writing a checkpoint: each rank its own file, all at once; rank 0 the manifest, when every file
// is on disk, and the name at last.
//
// Thread-safe: a function of its arguments. Collective: every rank of `group` calls with the same
// record and its own pieces. Memory taken is a small buffer (StagingBytes).
//
//   RETURN_IF_ERROR(WriteCheckpoint(files, "out/checkpoints", record, pieces, read, group));
#ifndef COLOSSUS_TRAINERS_LIB_CHECKPOINT_WRITE_H_
#define COLOSSUS_TRAINERS_LIB_CHECKPOINT_WRITE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "trainers/lib/checkpoint/manifest.h"
#include "trainers/lib/checkpoint/record.h"
#include "trainers/lib/ranks/rank_group.h"

namespace colossus {

// Copies bytes [offset, offset + bytes) of pieces[piece] to `dst`.
using PieceReader =
    std::function<absl::Status(size_t piece, int64_t offset, void* dst, int64_t bytes)>;

// Writes folder/step-N, N = attempted updates; `folder` is made if missing. `pieces`: what this
// rank writes, of states in the record; the pieces of all ranks hold every element once. If any
// rank fails, all ranks get the same error, which names the rank; nothing is left that looks
// complete, and older checkpoints are as they were. ResourceExhausted: the disk is full; the
// message has the path, and the wanted and the free bytes.
absl::Status WriteCheckpoint(FileSystem& files, const std::string& folder,
                             const CheckpointRecord& record, const std::vector<SavedPiece>& pieces,
                             const PieceReader& read, RankGroup group = RankGroup());

// The parts of it, for tests that run ranks one after another.

// The file of `rank` in `temporary`; its entry for the manifest. `ranks`: that do so at a time.
absl::StatusOr<PiecesFile> WritePieces(FileSystem& files, const std::string& temporary, int rank,
                                       const CheckpointRecord& record,
                                       const std::vector<SavedPiece>& pieces,
                                       const PieceReader& read, int ranks = 1);
// The manifest into `temporary`, which then gets its name.
absl::Status FinishCheckpoint(FileSystem& files, const std::string& folder,
                              const Manifest& manifest);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CHECKPOINT_WRITE_H_
