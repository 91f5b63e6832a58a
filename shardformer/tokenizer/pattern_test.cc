#include "shardformer/tokenizer/pattern.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "shardformer/tokenizer/pattern_dialect.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

// All matches in `text`, joined by |.
std::string Matches(const char* pattern, const std::string& text) {
  absl::StatusOr<Pattern> compiled = Pattern::Compile(pattern);
  EXPECT_OK(compiled.status());
  if (!compiled.ok()) return "";
  Matcher matcher;
  std::vector<std::string> found;
  size_t begin, end;
  for (size_t at = 0; compiled->Find(text.data(), text.size(), at, &matcher, &begin, &end);) {
    found.push_back(text.substr(begin, end - begin));
    at = end > begin ? end : end + 1;
    if (at > text.size()) break;
  }
  EXPECT_OK(matcher.status());
  return absl::StrJoin(found, "|");
}

// What Oniguruma finds in each, where the two dialects might part.
TEST(PatternTest, MeansWhatItMeansThere) {
  const struct {
    const char* pattern;
    const char* text;
    const char* matches;
  } cases[] = {
      {R"(\d{1,3}+)", "12345678", "12345678"},  // the interval again, not possessive
      {R"(\d{1,3})", "12345678", "123|456|78"},
      {R"(^a)", "a\na", "a|a"},
      {R"(a$)", "a\nab", "a"},
      {R"(.)", "a\n\r", "a|\r"},
      {R"((?i:'s|'t))", "'S 't '\u017F", "'S|'t|'\u017F"},
      {R"(\s+)", "a \u00A0\u2003\u3000\x0B\u0085z\u180Ez", " \u00A0\u2003\u3000\x0B\u0085|\u180E"},
      {R"(\p{N})", "3\u00BD\u0663\u2169", "3|\u00BD|\u0663|\u2169"},
      {R"(\p{Han}+)", "\u3001\u4E00\u3007\u3042", "\u4E00\u3007"},  // not by Script_Extensions
      {R"(a{2,3}?)", "aaaaa", "aa|aa"},
      {R"([a\-z]+)", "a-zb", "a-z"},
      {R"(\u00e9|\x{1F600}|\x41)", "\u00E9A\U0001F600", "\u00E9|A|\U0001F600"},
      {R"(x{y)", "x{y", "x{y"},
      {R"(a++b|a)", "aaab", "aaab"},
  };
  for (const auto& c : cases) EXPECT_EQ(Matches(c.pattern, c.text), c.matches) << c.pattern;
}

TEST(PatternTest, RefusesWhatMeansSomethingElse) {
  const struct {
    const char* pattern;
    const char* message;
  } cases[] = {
      {R"(\w+)", "\"\\w\" at byte 0"},
      {R"(a\b)", "\"\\b\" at byte 1"},
      {R"(\h)", "\\h"},
      {R"(\p{Greek})", "\\p{Greek}"},
      {R"(\p{^L})", "\\p{^L}"},
      {R"([a[bc]])", "a class inside a class"},
      {R"([a-z&&[^b]])", "intersection"},
      {R"([[:alpha:]])", "a class inside a class"},
      {R"(a(?i)b)", "of groups"},
      {R"((?m:.))", "of groups"},
      {R"((?<n>a))", "of groups"},
      {R"((*UTF)a)", "of groups"},
      {R"((?i:ss))", "these two are also one character"},
      {"(?i:\u00E9)", "only ASCII"},
      {R"(a{2}?)", "}?"},
      {R"(a{,2})", "write {0,n}"},
      {"[\u2E80-\u2FFF]", "newer than Unicode 14"},
      {R"([])", "must not be empty"},
      {R"([a)", "not closed"},
      {R"(a))", "closes no group"},
      {R"(\)", "nothing follows"},
      {R"(\xC3)", "write \\x{...}"},
      {R"(\x{110000})", "write \\x{...}"},
      {R"(\x{)", "write \\x{...}"},
      {R"(\p{L)", "write a property"},
      {R"(\k<1>)", "\\k"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(Pattern::Compile(c.pattern).status(),
                StatusIs(absl::StatusCode::kUnimplemented, HasSubstr(c.message)))
        << c.pattern;
  }
  for (const char* wrong : {"(a", "*a", "a{3,2}", "(?<=a*)b"}) {
    EXPECT_THAT(Pattern::Compile(wrong).status(), StatusIs(absl::StatusCode::kInvalidArgument))
        << wrong;
  }
  EXPECT_THAT(Pattern::Compile(std::string(1 << 17, 'a')).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("bytes")));
}

TEST(PatternTest, LiteralsAreNoPatterns) {
  absl::StatusOr<Pattern> dot = Pattern::Literal("a.[");
  ASSERT_OK(dot.status());
  Matcher matcher;
  size_t begin, end;
  const std::string text = "abba.[";
  ASSERT_TRUE(dot->Find(text.data(), text.size(), 0, &matcher, &begin, &end));
  EXPECT_EQ(begin, 3u);
  EXPECT_EQ(end, 6u);
}

// Protects: long texts overflow no stack.
TEST(PatternTest, LongMatches) {
  absl::StatusOr<Pattern> pattern = Pattern::Compile(R"((?:a|b)+c?|x)");
  ASSERT_OK(pattern.status());
  const std::string text(1 << 20, 'a');
  Matcher matcher;
  size_t begin, end;
  ASSERT_TRUE(pattern->Find(text.data(), text.size(), 0, &matcher, &begin, &end));
  EXPECT_EQ(end - begin, text.size());
  EXPECT_OK(matcher.status());
}

}  // namespace
}  // namespace colossus
