// The bytes that each id of a byte-level tokenizer stands for.
//
// Thread-safe: constant once made.
//
//   RETURN_IF_ERROR(CheckDecoder(json["decoder"], "decoder"));
//   DecodeTable table(vocabulary);
//   table.Set(17, "\u0120a");   // in the spelling of the vocabulary
//   table.Bytes(17)             // " a"
#ifndef COLOSSUS_SHARDFORMER_TOKENIZER_DECODER_H_
#define COLOSSUS_SHARDFORMER_TOKENIZER_DECODER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace colossus {

// Whether `decoder` of tokenizer.json is ByteLevel, alone or in a Sequence with Fuse. Unimplemented
// names what it is instead.
absl::Status CheckDecoder(const nlohmann::json& json, const std::string& path);

class DecodeTable {
 public:
  // Ids are in [0, vocabulary); those that are never set stand for nothing.
  explicit DecodeTable(int64_t vocabulary) : bytes_(static_cast<size_t>(vocabulary)) {}
  // A token with a character that stands for no byte is its own text.
  void Set(int32_t id, absl::string_view token);
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  const std::string& Bytes(int32_t id) const { return bytes_[static_cast<size_t>(id)]; }

 private:
  std::vector<std::string> bytes_;
};

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_TOKENIZER_DECODER_H_
