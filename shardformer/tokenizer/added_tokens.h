// AddedTokens: texts that become one id wherever they stand, `added_tokens` of tokenizer.json.
//
// Thread-safe: constant once made.
//
// Those that are not `normalized` are found in the text as it is given, the others in the
// normalized stretches between them. At each place the longest one wins.
//
//   ASSIGN_OR_RETURN(AddedTokens added, AddedTokens::Parse(json["added_tokens"], "added_tokens",
//                                                          vocabulary, normalizer));
//   added.raw().Split(text, [&](absl::string_view part, int32_t id) { ... });   // id < 0: text
#ifndef COLOSSUS_SHARDFORMER_TOKENIZER_ADDED_TOKENS_H_
#define COLOSSUS_SHARDFORMER_TOKENIZER_ADDED_TOKENS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "shardformer/tokenizer/normalizer.h"

namespace colossus {

struct AddedToken {
  int32_t id = 0;
  std::string content;       // as the file spells it
  std::string text;          // what is looked for, and what decodes to: the content, or normalized
  bool special = false;      // left out of decoded text on request
  bool normalized = false;   // found in the normalized text
  bool single_word = false;  // not beside a letter, digit or underscore
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space behind it
};

// Finds the texts of a list of tokens, the longest at each place.
class TokenFinder {
 public:
  // Of two tokens with one text, the first counts.
  void Add(const AddedToken& token);
  bool empty() const { return tokens_.empty(); }

  // Gives `text` in parts, in order: a token's id, or -1 and text between tokens (not empty).
  // REQUIRES: valid UTF-8.
  void Split(absl::string_view text,
             absl::FunctionRef<void(absl::string_view part, int32_t id)> give) const;
  // Whether some token's text begins in `text`.
  bool FindsAny(absl::string_view text) const;

 private:
  struct Node {
    int32_t token = -1;  // index into tokens_
  };
  struct Match {
    size_t size = 0;  // bytes; 0: none
    const AddedToken* token = nullptr;
  };
  Match LongestAt(absl::string_view text) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_ = {Node()};
  absl::flat_hash_map<uint64_t, uint32_t> next_;  // node * 256 + byte
  std::array<bool, 256> starts_ = {};
};

class AddedTokens {
 public:
  // `ids` has the ids of the model's own vocabulary by text. InvalidArgument for a wrong entry, a
  // text or id given twice, or an id that the vocabulary gives to another text.
  static absl::StatusOr<AddedTokens> Parse(const nlohmann::json& json, const std::string& path,
                                           const absl::flat_hash_map<std::string, int32_t>& ids,
                                           const Normalizer& normalizer);

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  const TokenFinder& raw() const { return raw_; }
  const TokenFinder& normalized() const { return normalized_; }
  // Bytes of the longest text.
  size_t longest() const { return longest_; }

 private:
  std::vector<AddedToken> tokens_;
  TokenFinder raw_, normalized_;
  size_t longest_ = 0;
};

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_TOKENIZER_ADDED_TOKENS_H_
