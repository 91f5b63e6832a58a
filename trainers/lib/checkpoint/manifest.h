// The manifest of a checkpoint: the record, and which file holds which pieces of which states.
//
// A manifest that reads without an error is whole (it has a checksum of its own), every piece lies
// inside its state, and the pieces of a state hold each of its elements once. Files are not looked
// at but for their sizes in CheckSizes.
// Thread-safe: plain values and functions.
//
//   ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(files, "out/checkpoints/step-20"));
//   for (const PiecesFile& file : manifest.files) ... file.name, file.pieces
#ifndef COLOSSUS_TRAINERS_LIB_CHECKPOINT_MANIFEST_H_
#define COLOSSUS_TRAINERS_LIB_CHECKPOINT_MANIFEST_H_

#include <xxhash.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "trainers/lib/checkpoint/record.h"

namespace colossus {

inline constexpr char kManifestName[] = "manifest.json";

// The checksum of files and manifests, over bytes as they come. One thread.
class ContentHash {
 public:
  ContentHash();
  ~ContentHash();
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  void Add(std::span<const char> bytes);
  std::string Text() const;  // of all bytes so far
  int64_t bytes() const { return bytes_; }

 private:
  XXH64_state_t* state_;
  int64_t bytes_ = 0;
};

// A piece and the name of the tensor that holds it.
struct StoredPiece {
  std::string tensor;
  SavedPiece saved;
};

// One file of a checkpoint: what one rank wrote.
struct PiecesFile {
  std::string name;      // in the checkpoint's folder
  int64_t bytes = 0;     // of the whole file
  std::string checksum;  // likewise
  std::vector<StoredPiece> pieces;
};

struct Manifest {
  CheckpointRecord record;
  std::vector<PiecesFile> files;
};

std::string ToText(const Manifest& manifest);
// InvalidArgument or NotFound names the manifest's file. Reads this and the older version.
absl::StatusOr<Manifest> ReadManifest(FileSystem& files, const std::string& folder);

// A file's entry alone, as a rank tells it to the one that writes the manifest.
std::string ToText(const PiecesFile& file);
absl::StatusOr<PiecesFile> ParsePiecesFile(absl::string_view text);

// InvalidArgument where a file has another size than the manifest says; NotFound where it is
// missing.
absl::Status CheckSizes(FileSystem& files, const std::string& folder, const Manifest& manifest);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CHECKPOINT_MANIFEST_H_
