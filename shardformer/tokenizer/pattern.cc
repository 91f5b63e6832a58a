#include "shardformer/tokenizer/pattern.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "shardformer/tokenizer/pattern_dialect.h"

namespace colossus {
namespace {

constexpr size_t kMaxPatternBytes = 64 << 10;
constexpr size_t kStackBytes = 64 << 20;  // most that one search may take; grows from 64 KiB

std::string ErrorText(int code) {
  PCRE2_UCHAR text[200];
  return pcre2_get_error_message(code, text, sizeof(text)) < 0
             ? absl::StrCat("error ", code)
             : std::string(reinterpret_cast<const char*>(text));
}

}  // namespace

Matcher::Matcher()
    : stack_(pcre2_jit_stack_create(64 << 10, kStackBytes, nullptr)),
      context_(pcre2_match_context_create(nullptr)),
      data_(pcre2_match_data_create(1, nullptr)) {
  CHECK(stack_ && context_ && data_) << "out of memory";
  pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
  // A long text takes few of these steps; a pattern that tries ever more ways takes them all.
  pcre2_set_match_limit(context_.get(), 50 << 20);
  pcre2_set_depth_limit(context_.get(), 50 << 20);
  pcre2_set_heap_limit(context_.get(), 1 << 20);  // KiB
}

absl::StatusOr<Pattern> Pattern::Make(absl::string_view pattern, uint32_t options) {
  if (pattern.size() > kMaxPatternBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the pattern has ", pattern.size(), " bytes; at most ", kMaxPatternBytes,
                     " are read"));
  }
  struct Context {
    pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
    ~Context() { pcre2_compile_context_free(context); }
  } compile;
  CHECK(compile.context != nullptr) << "out of memory";
  pcre2_set_newline(compile.context, PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  Pattern made;
  made.code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                 options | PCRE2_UTF, &error, &offset, compile.context));
  if (made.code_ == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the pattern is wrong near byte ", offset, ": ", ErrorText(error)));
  }
  made.jit_ = pcre2_jit_compile(made.code_.get(), PCRE2_JIT_COMPLETE) == 0;
  return made;
}

absl::StatusOr<Pattern> Pattern::Compile(absl::string_view pattern) {
  ASSIGN_OR_RETURN(const std::string pcre2, ToPcre2(pattern));
  return Make(pcre2, PCRE2_UCP | PCRE2_MULTILINE);
}

absl::StatusOr<Pattern> Pattern::Literal(absl::string_view text) {
  return Make(text, PCRE2_LITERAL);
}

Pattern Pattern::Own(absl::string_view pattern) {
  absl::StatusOr<Pattern> made = Make(pattern, PCRE2_UCP);
  CHECK_OK(made.status());
  return *std::move(made);
}

bool Pattern::Find(const char* text, size_t size, size_t from, Matcher* matcher, size_t* begin,
                   size_t* end) const {
  if (!matcher->status_.ok()) return false;
  const PCRE2_SPTR subject = reinterpret_cast<PCRE2_SPTR>(text);
  int found = PCRE2_ERROR_JIT_STACKLIMIT;
  if (jit_) {
    found = pcre2_jit_match(code_.get(), subject, size, from, PCRE2_NO_UTF_CHECK,
                            matcher->data_.get(), matcher->context_.get());
  }
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
    found = pcre2_match(code_.get(), subject, size, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                        matcher->data_.get(), matcher->context_.get());
  }
  if (found >= 0) {
    const PCRE2_SIZE* at = pcre2_get_ovector_pointer(matcher->data_.get());
    *begin = at[0];
    *end = at[1];
    return true;
  }
  if (found != PCRE2_ERROR_NOMATCH) {
    matcher->status_ = absl::ResourceExhaustedError(
        absl::StrCat("a pattern of the tokenizer gave up on a text: ", ErrorText(found)));
  }
  return false;
}

}  // namespace colossus
