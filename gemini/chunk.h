// ChunkLayout: tensors laid out one after another in flat buffers that ranks share out evenly.
//
// Purpose: a chunk holds tensors that are used together, so that one collective, one copy or one
// update kernel serves them all. Each tensor starts on the alignment, and a chunk is padded until
// every shard is a whole number of blocks: shard borders are block borders, whatever the number of
// shards. The largest size of a chunk is searched for the least padding. The layout is the table
// between parameters, which files and people speak of, and ranges of chunks, which ranks hold.
// Pure arithmetic on element counts; it knows no dtype and no graph.
// Thread-safety: immutable when made. Ownership: owns its names.
//
//   ASSIGN_OR_RETURN(ChunkLayout layout,
//                    ChunkLayout::Make({{"h.0.w", 4096, "h.0"}, {"h.0.b", 64, "h.0"}},
//                                      {.shards = 2}));
//   layout.Find("h.0.b")->first;             // 4096, in chunk 0
//   layout.Pieces("h.0.w");                  // which shards of which chunk hold it
//   layout.Held(0, layout.Shard(0, 1));      // what shard 1 of chunk 0 holds
#ifndef COLOSSUS_GEMINI_CHUNK_H_
#define COLOSSUS_GEMINI_CHUNK_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace colossus {

// Elements [first, first + count).
struct ElementRange {
  int64_t first = 0, count = 0;
  int64_t end() const { return first + count; }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

struct ChunkTensor {
  std::string name;
  int64_t elements = 0;
  std::string group;  // only tensors of one group share a chunk
};

struct ChunkOptions {
  int shards = 1;
  int64_t alignment = 64;  // of a tensor's first element
  int64_t block = 1024;    // a shard is a multiple of it
  // What a chunk holds at most, unless a single tensor needs more. The search looks at sizes from a
  // quarter of it on.
  int64_t max_elements = int64_t{1} << 26;
};

// Where a tensor lies.
struct ChunkSegment {
  std::string name;
  int chunk = 0;
  int64_t first = 0;  // in the chunk
  int64_t elements = 0;
};

struct Chunk {
  std::string group;
  std::vector<ChunkSegment> segments;  // ascending by `first`, disjoint
  int64_t elements = 0;                // with padding
  int64_t used = 0;                    // of its tensors
};

// A run of one tensor's elements inside one shard.
struct ChunkPiece {
  std::string tensor;
  int64_t tensor_first = 0;  // in the tensor
  int chunk = 0;
  int64_t chunk_first = 0;  // in the chunk
  int shard = 0;
  int64_t shard_first = 0;  // in the shard
  int64_t count = 0;
};

class ChunkLayout {
 public:
  ChunkLayout() = default;  // no tensors
  // Chunks are in the order in which their groups come first; tensors keep their order in a group.
  // Error: InvalidArgument for a name given twice, fewer than 0 elements in a tensor or than 1 in
  // an option, or more than 2^62 elements in all.
  static absl::StatusOr<ChunkLayout> Make(const std::vector<ChunkTensor>& tensors,
                                          const ChunkOptions& options);

  const std::vector<Chunk>& chunks() const { return chunks_; }
  int shards() const { return shards_; }
  int64_t elements() const { return elements_; }         // with padding
  int64_t padding() const { return elements_ - used_; }  // elements that hold nothing
  int64_t largest() const { return largest_; }           // what the search found: elements

  // nullptr: there is no such tensor. Good while the layout lives.
  const ChunkSegment* Find(absl::string_view tensor) const;
  // The part of a chunk that shard `shard` holds. REQUIRES: they exist.
  ElementRange Shard(int chunk, int shard) const;

  // The elements `range` of a tensor as pieces that each lie in one shard, ascending. REQUIRES: the
  // tensor exists and has them.
  std::vector<ChunkPiece> Pieces(absl::string_view tensor, ElementRange range) const;
  std::vector<ChunkPiece> Pieces(absl::string_view tensor) const;  // of the whole tensor
  // The tensors' elements in the range `range` of a chunk, ascending; padding is left out. Pieces
  // end at shard borders.
  std::vector<ChunkPiece> Held(int chunk, ElementRange range) const;

 private:
  void Fill(const std::vector<ChunkTensor>& tensors, const ChunkOptions& options, int64_t largest);

  std::vector<Chunk> chunks_;
  absl::flat_hash_map<std::string, std::pair<int, int>> place_;  // chunk, segment
  int shards_ = 1;
  int64_t elements_ = 0, used_ = 0, largest_ = 0;
};

// "3 chunks for 2 shards, 10,240 elements, 12.5 % of them padding; a chunk has 4,096 at most", for
// the log.
std::string Summary(const ChunkLayout& layout);

// The whole table, a line per chunk and tensor:
//   chunk 0 h.0 6144 elements
//     h.0.w [0,4096)
std::string ToText(const ChunkLayout& layout);

}  // namespace colossus

#endif  // COLOSSUS_GEMINI_CHUNK_H_
