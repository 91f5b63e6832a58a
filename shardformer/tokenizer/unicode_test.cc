#include "shardformer/tokenizer/unicode.h"

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

TEST(UnicodeTest, EveryCodePointRoundTrips) {
  for (uint32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text;
    AppendUtf8(code, &text);
    ASSERT_EQ(Utf8Length(text), text.size()) << code;
    size_t length;
    ASSERT_EQ(DecodeUtf8(text, &length), code);
    ASSERT_EQ(length, text.size());
  }
}

// The faults of the Unicode standard's table 3-8, and what each becomes: one mark for the longest
// part that could have become a character.
TEST(UnicodeTest, FaultsBecomeOneMarkAPart) {
  const struct {
    const char* bytes;
    size_t good;  // bytes before the first fault
    const char* lossy;
  } cases[] = {
      {"abc", 3, "abc"},
      {"a\x80z", 1, "a\xEF\xBF\xBDz"},
      {"\xC0\xAF", 0, "\xEF\xBF\xBD\xEF\xBF\xBD"},          // overlong
      {"\xED\xA0\x80", 0, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},  // surrogate
      {"\xF4\x91\x92\x93", 0, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xE1\x80", 0, "\xEF\xBF\xBD"},                      // cut
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF" "A", 0,
       "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD" "A"},
      {"\xF0\x9F\x98\x80\xFF", 4, "\xF0\x9F\x98\x80\xEF\xBF\xBD"},
      {"12345678\xC3\xBC\xC3", 10, "12345678\xC3\xBC\xEF\xBF\xBD"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(ValidUtf8Prefix(c.bytes), c.good) << c.lossy;
    EXPECT_EQ(LossyUtf8(c.bytes), c.lossy);
  }
}

TEST(UnicodeTest, StandInsKeepLengthAndLeaveTheRest) {
  std::string copy = "untouched";
  EXPECT_FALSE(WithStandIns("plain \u00FC \u4F60 \U0001F600", &copy));
  EXPECT_EQ(copy, "untouched");
  // Mongolian vowel separator, no white space since Unicode 6.3; a letter of Unicode 15.
  const std::string text = "a\u180Eb\U0001E030";
  ASSERT_TRUE(WithStandIns(text, &copy));
  EXPECT_EQ(copy, "a\u2060b\U00010780");
  EXPECT_TRUE(HasStandIn(0x1E000, 0x1E0FF));
  EXPECT_FALSE(HasStandIn(0x4E00, 0x9FA5));
}

}  // namespace
}  // namespace colossus
