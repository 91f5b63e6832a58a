// The 256 printable characters that stand for bytes in byte-level vocabularies.
//
// Thread-safe: functions of their arguments.
//
//   ByteSymbol(' ')          // U+0120 as UTF-8
//   BytesOfSymbols("\u0120a", &bytes)   // true, " a"
#ifndef COLOSSUS_SHARDFORMER_TOKENIZER_BYTE_SYMBOLS_H_
#define COLOSSUS_SHARDFORMER_TOKENIZER_BYTE_SYMBOLS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace colossus {

// As UTF-8: printable Latin-1 bytes stand for themselves, the other 68 follow from U+0100 in the
// order of their values. REQUIRES: 0 <= byte < 256.
std::string ByteSymbol(int byte);

// The bytes that `symbols` stand for. False, with `bytes` unspecified, where some character stands
// for none. REQUIRES: valid UTF-8.
bool BytesOfSymbols(absl::string_view symbols, std::string* bytes);

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_TOKENIZER_BYTE_SYMBOLS_H_
