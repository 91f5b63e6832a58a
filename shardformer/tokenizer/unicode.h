// UTF-8 and the few character properties that tokenizers need.
//
// Thread-safe: functions of their arguments.
//
//   size_t good = ValidUtf8Prefix(text);   // text.size() where all of it is UTF-8
//   std::string shown = LossyUtf8(bytes);  // faults become U+FFFD
#ifndef COLOSSUS_SHARDFORMER_TOKENIZER_UNICODE_H_
#define COLOSSUS_SHARDFORMER_TOKENIZER_UNICODE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace colossus {

// Bytes of the UTF-8 character at the start of `text`, 0 if it is none: overlong forms, surrogates,
// code points past U+10FFFF and cut characters are none. REQUIRES: text is not empty.
size_t Utf8Length(absl::string_view text);

// Bytes at the start of `text` that are whole UTF-8 characters.
size_t ValidUtf8Prefix(absl::string_view text);

// The code point at the start of `text`, and its bytes. REQUIRES: valid UTF-8, not empty.
uint32_t DecodeUtf8(absl::string_view text, size_t* length);

void AppendUtf8(uint32_t code, std::string* out);

// `bytes` with each longest part of a character that is broken off replaced by one U+FFFD.
std::string LossyUtf8(absl::string_view bytes);

// The property White_Space.
bool IsWhiteSpace(uint32_t code);

// Patterns are matched with the tables of Unicode 14, but the files' makers used those of Unicode
// 16. Each character that is newer, or that the older tables class otherwise, has a stand-in of the
// same category and the same length in UTF-8; a pattern sees the stand-in.
//
// Writes the text that patterns see into `copy` and returns true; false where it is `text` itself
// (then `copy` is unchanged). REQUIRES: valid UTF-8.
bool WithStandIns(absl::string_view text, std::string* copy);

// Whether some character of [first, last] has a stand-in or is one: a class of a pattern that names
// it would see the wrong one.
bool HasStandIn(uint32_t first, uint32_t last);

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_TOKENIZER_UNICODE_H_
