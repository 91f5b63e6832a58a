#include "trainers/lib/answer/utf8_stream.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace colossus {
namespace {

// What comes out for each byte of `text`, then at the end.
std::vector<std::string> ByteByByte(const std::string& text) {
  Utf8Stream stream;
  std::vector<std::string> pieces;
  for (char byte : text) pieces.push_back(stream.Push({&byte, 1}));
  pieces.push_back(stream.Finish());
  return pieces;
}

TEST(Utf8Stream, HandsOnWholeCharacters) {
  using Pieces = std::vector<std::string>;
  const struct {
    const char* what;
    std::string text;
    Pieces pieces;
  } cases[] = {
      {"ASCII", "ab", {"a", "b", ""}},
      {"two bytes", "\xC3\xA9!", {"", "\xC3\xA9", "!", ""}},
      {"three bytes", "\xE2\x82\xAC", {"", "", "\xE2\x82\xAC", ""}},
      {"four bytes", "\xF0\x9F\x98\x80", {"", "", "", "\xF0\x9F\x98\x80", ""}},
      {"cut off", "a\xE2\x82", {"a", "", "", "\xE2\x82"}},
      {"broken by another", "\xE2z", {"", "\xE2z", ""}},
      {"a second beginning", "\xE2\xC3\xA9", {"", "\xE2", "\xC3\xA9", ""}},
      {"never a beginning", "\x80\xFF\xC0", {"\x80", "\xFF", "\xC0", ""}},
      {"zero", std::string(1, '\0'), {std::string(1, '\0'), ""}},
  };
  for (const auto& c : cases) EXPECT_EQ(ByteByByte(c.text), c.pieces) << c.what;
}

TEST(Utf8Stream, TakesPiecesOfAnySize) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Push(""), "");
  EXPECT_EQ(stream.Push("na\xC3\xAFve \xE2\x82"), "na\xC3\xAFve ");
  EXPECT_EQ(stream.Push("\xAC 5"), "\xE2\x82\xAC 5");
  EXPECT_EQ(stream.Finish(), "");
}

}  // namespace
}  // namespace colossus
