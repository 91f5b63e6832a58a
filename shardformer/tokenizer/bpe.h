// Bpe: the bytes of one piece to ids by byte-pair merges, `model` of tokenizer.json.
//
// Thread-safe: constant once made; what a call writes is in the scratch, one a thread.
// The result is that of merging, again and again, the pair of neighbours whose merge stands first
// in the list, the leftmost such pair first. Cost: O(n^2) for pieces up to 48 bytes, O(n log n)
// beyond; short pieces seen before come from a cache.
//
//   ASSIGN_OR_RETURN(Bpe bpe, Bpe::Parse(json["model"], "model"));
//   BpeScratch scratch;
//   bpe.Encode(" hello", &scratch, &ids);   // appends
#ifndef COLOSSUS_SHARDFORMER_TOKENIZER_BPE_H_
#define COLOSSUS_SHARDFORMER_TOKENIZER_BPE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace colossus {

class Fields;

// Ids of short pieces that were met before (each slot holds the last one of its hash), and memory
// for merging.
class BpeScratch {
 public:
  BpeScratch() : slots_(kSlots) {}

 private:
  friend class Bpe;
  static constexpr size_t kSlots = 1 << 14;
  static constexpr size_t kBytes = 30, kIds = 8;  // of what a slot can hold
  struct Slot {
    uint8_t size = 0;  // bytes; 0: free
    uint8_t count = 0;
    char bytes[kBytes];
    int32_t ids[kIds];
  };
  struct Symbol {
    int32_t id;
    int32_t before, after;  // indexes, -1: none
  };
  struct Candidate {
    int32_t rank, at, left, right;
  };
  std::vector<Slot> slots_;
  std::vector<int32_t> ids_, ranks_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

class Bpe {
 public:
  // `path` names the value in messages. InvalidArgument for what is wrong with it, Unimplemented
  // for another model or a setting that cannot be obeyed.
  static absl::StatusOr<Bpe> Parse(const nlohmann::json& json, const std::string& path);

  // Appends the ids of `piece`, not empty.
  void Encode(absl::string_view piece, BpeScratch* scratch, std::vector<int32_t>* ids) const;

  // The vocabulary as the file spells it.
  const absl::flat_hash_map<std::string, int32_t>& ids() const { return ids_; }

 private:
  struct Merge {
    int32_t rank;  // place in the list; -1: none
    int32_t id;    // what the two become
  };
  struct Entry {
    uint64_t pair = ~uint64_t{0};
    Merge merge = {-1, -1};
  };

  absl::Status ParseVocabulary(const nlohmann::json& json, const std::string& path);
  absl::Status ParseMerges(const nlohmann::json& json, const std::string& path);
  absl::Status ParseSettings(Fields& fields);
  void AddMerge(int32_t left, int32_t right, Merge merge);
  Merge FindMerge(int32_t left, int32_t right) const;
  // The ids of the single bytes.
  void StartIds(absl::string_view piece, std::vector<int32_t>* ids) const;
  void MergeShort(BpeScratch* scratch) const;
  void MergeLong(BpeScratch* scratch) const;
  void Compute(absl::string_view piece, BpeScratch* scratch) const;

  absl::flat_hash_map<std::string, int32_t> ids_;        // as spelled
  absl::flat_hash_map<std::string, int32_t> byte_ids_;   // by bytes, if whole pieces are looked up
  std::array<int32_t, 256> single_ = {};                 // -1: not in the vocabulary
  std::vector<Entry> merges_;                            // open addressing, a power of two
  int32_t unknown_ = -1;
  bool fuse_unknown_ = false;
  bool ignore_merges_ = false;
};

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_TOKENIZER_BPE_H_
