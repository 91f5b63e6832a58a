// A tokenizer.json that is small enough to reckon with by hand, for tests to change.
//
// Thread-safe: a function without state.
//
//   nlohmann::json json = SmallTokenizerJson();
//   json["normalizer"] = {{"type", "NFC"}};
#ifndef COLOSSUS_SHARDFORMER_TOKENIZER_TESTING_SMALL_TOKENIZER_H_
#define COLOSSUS_SHARDFORMER_TOKENIZER_TESTING_SMALL_TOKENIZER_H_

#include "nlohmann/json.hpp"

namespace colossus {

// Ids 0 to 255 are the bytes; 256 "us", 257 "er", 258 "user", 259 " user" by the merges u s, e r,
// us er, (space) user, in this order; 260 the special token <|endoftext|>, not in model.vocab. The
// pre_tokenizer is ByteLevel with its own pattern.
inline constexpr int kSmallVocabulary = 261;
inline constexpr int kSmallEnd = 260;
nlohmann::json SmallTokenizerJson();

// An entry of added_tokens that is not normalized and not special.
nlohmann::json AddedTokenJson(int id, const char* content);

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_TOKENIZER_TESTING_SMALL_TOKENIZER_H_
