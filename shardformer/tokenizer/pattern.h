// Pattern: one regular expression of tokenizer.json, run by PCRE2.
//
// Thread-safe: constant once made; what a search writes is in the Matcher, one a thread.
// Ownership: owns the compiled code; move-only.
//
//   ASSIGN_OR_RETURN(Pattern pattern, Pattern::Compile(R"(\p{N}{1,3}|\s+(?!\S)|\s+)"));
//   Matcher matcher;
//   size_t begin, end;
//   while (pattern.Find(text, from, &matcher, &begin, &end)) ...
//   RETURN_IF_ERROR(matcher.status());
#ifndef COLOSSUS_SHARDFORMER_TOKENIZER_PATTERN_H_
#define COLOSSUS_SHARDFORMER_TOKENIZER_PATTERN_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pcre2.h"

namespace colossus {

// Memory of searches, and whether one failed.
class Matcher {
 public:
  Matcher();
  // ResourceExhausted once a search ran out of memory or steps; it found nothing then.
  const absl::Status& status() const { return status_; }

 private:
  friend class Pattern;
  struct Free {
    void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
    void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
    void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
  };
  std::unique_ptr<pcre2_jit_stack, Free> stack_;
  std::unique_ptr<pcre2_match_context, Free> context_;
  std::unique_ptr<pcre2_match_data, Free> data_;
  absl::Status status_;
};

class Pattern {
 public:
  // A regular expression in Oniguruma's dialect (pattern_dialect.h). Unimplemented names a part
  // that cannot be read, InvalidArgument what is wrong with the pattern.
  static absl::StatusOr<Pattern> Compile(absl::string_view pattern);
  // The text itself, character by character.
  static absl::StatusOr<Pattern> Literal(absl::string_view text);
  // A pattern in PCRE2's own dialect. CHECKs that it compiles.
  static Pattern Own(absl::string_view pattern);

  // The leftmost match that begins at or after `from` of the `size` bytes at `text`; what stands
  // before `from` can be looked back at. REQUIRES: valid UTF-8, `from` at a character.
  bool Find(const char* text, size_t size, size_t from, Matcher* matcher, size_t* begin,
            size_t* end) const;

 private:
  struct Free {
    void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  };
  static absl::StatusOr<Pattern> Make(absl::string_view pattern, uint32_t options);
  std::unique_ptr<pcre2_code, Free> code_;
  bool jit_ = false;
};

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_TOKENIZER_PATTERN_H_
