// Patterns of tokenizer.json, which are in Oniguruma's dialect, as PCRE2 reads them.
//
// Purpose: most of both dialects is the same, so most of a pattern stands as written. The few parts
// that are spelled differently are respelled; a part that means something else, or was never
// compared, is refused by name.
// Thread-safe: a function of its argument.
//
//   ASSIGN_OR_RETURN(std::string pcre2, ToPcre2(R"(\p{N}{1,3}+| ?\p{L}+)"));
//   // (?:\p{N}{1,3})+| ?\p{L}+
#ifndef COLOSSUS_SHARDFORMER_TOKENIZER_PATTERN_DIALECT_H_
#define COLOSSUS_SHARDFORMER_TOKENIZER_PATTERN_DIALECT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace colossus {

// The pattern for PCRE2 with UTF, UCP and MULTILINE. Unimplemented names the part that cannot be
// read and where it stands. REQUIRES: valid UTF-8.
absl::StatusOr<std::string> ToPcre2(absl::string_view pattern);

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_TOKENIZER_PATTERN_DIALECT_H_
