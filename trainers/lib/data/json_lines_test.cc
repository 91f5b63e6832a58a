#include "trainers/lib/data/json_lines.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace colossus {
namespace {

constexpr JsonLineKind kText = JsonLineKind::kText;
constexpr JsonLineKind kBlank = JsonLineKind::kBlank;
constexpr JsonLineKind kEmpty = JsonLineKind::kEmpty;
constexpr JsonLineKind kMissing = JsonLineKind::kMissingField;
constexpr JsonLineKind kBroken = JsonLineKind::kBroken;

std::string Decode(absl::string_view raw) {
  std::string text;
  EXPECT_OK(DecodeJsonString(raw, [&](absl::string_view piece) {
    text.append(piece.data(), piece.size());
    return absl::OkStatus();
  }));
  return text;
}

struct LineCase {
  std::string line;
  JsonLineKind kind;
  std::string text = "";
};

TEST(JsonLinesTest, Lines) {
  const LineCase cases[] = {
      {R"({"text":"ab"})", kText, "ab"},
      {R"( { "a" : [1,{"text":"no"},-0.5e+3,true,null] , "text" : "x" , "b":{} } )", kText, "x"},
      {"{\"text\":\"d\\r\\n\"}\r", kText, "d\r\n"},
      {R"({"text":"\"\\\/\b\f\n\r\t"})", kText, "\"\\/\b\f\n\r\t"},
      {R"({"text":"\u00e9\u20ac\ud83e\udd17\u0000"})", kText,
       std::string("\u00e9\u20ac\U0001F917\0", 10)},
      {R"({"t\u0065xt":"x"})", kText, "x"},
      {"{\"text\":\"\u00e9\u20ac\U0001F917\"}", kText, "\u00e9\u20ac\U0001F917"},
      {"", kBlank},
      {" \t\r", kBlank},
      {R"({"text":""})", kEmpty},
      {R"({"txt":"x"})", kMissing},
      {R"({"text":5})", kMissing},
      {"{}", kMissing},
      {R"({"text":"c")", kBroken},
      {R"({"text":"c"} x)", kBroken},
      {R"({"text":"c",})", kBroken},
      {R"({"text":"a","text":"b"})", kBroken},
      {R"(["text"])", kBroken},
      {R"({"text":"\x"})", kBroken},
      {R"({"text":"\u12"})", kBroken},
      {R"({"text":"\ud800"})", kBroken},
      {R"({"text":"\udc00"})", kBroken},
      {R"({"text":"\ud800\u0041"})", kBroken},
      {"{\"text\":\"a\tb\"}", kBroken},
      {"{\"text\":\"\xff\"}", kBroken},
      {"{\"text\":\"\xc0\x80\"}", kBroken},
      {"{\"text\":\"\xed\xa0\x80\"}", kBroken},
      {"{\"text\":\"\xf0\x9f\xa4\"}", kBroken},
      {R"({"a":01,"text":"x"})", kBroken},
      {R"({"a":1.,"text":"x"})", kBroken},
      {R"({"a":tru,"text":"x"})", kBroken},
      {R"({"a":,"text":"x"})", kBroken},
      {R"({a:1})", kBroken},
      {std::string("{\"text\":\"x\"}\0", 13), kBroken},
      {"{\"a\":" + std::string(100000, '['), kBroken},
  };
  for (const LineCase& c : cases) {
    SCOPED_TRACE(c.line.substr(0, 80));
    const JsonLine line = ScanJsonLine(c.line, "text");
    ASSERT_EQ(static_cast<int>(line.kind), static_cast<int>(c.kind));
    if (c.kind == kText) {
      EXPECT_EQ(Decode(line.raw), c.text);
    }
  }
}

// Random damage to good lines: the verdict is that of a full JSON parser, and so is the text.
TEST(JsonLinesTest, AgreesWithAFullParser) {
  const uint64_t seed = TestSeed();
  std::mt19937_64 random(seed);
  const std::string good = R"({"id": -1.5e2, "text": "a\u00e9\ud83e\udd17\n )"
                           "\u20ac"
                           R"(", "z": [true, {}]})";
  const std::string letters = "{}[]\",:\\u0aE+-. \tn\xc3\xa9\x80";
  for (int i = 0; i < 20000; ++i) {
    std::string line = good;
    for (uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % line.size();
      const char letter = letters[random() % letters.size()];
      switch (random() % 3) {
        case 0:
          line[at] = letter;
          break;
        case 1:
          line.erase(at, 1);
          break;
        default:
          line.insert(at, 1, letter);
      }
    }
    const JsonLine scanned = ScanJsonLine(line, "text");
    const nlohmann::json root = nlohmann::json::parse(line, nullptr, false);
    const bool valid = root.is_object();
    // A name given twice is the one thing the full parser accepts and this one does not.
    if (scanned.kind == kBroken && valid) {
      EXPECT_NE(line.find("text"), line.rfind("text")) << line;
      continue;
    }
    EXPECT_EQ(scanned.kind != kBroken, valid) << line;
    if (scanned.kind == kText) {
      EXPECT_EQ(Decode(scanned.raw), root["text"].get<std::string>());
    }
  }
}

TEST(JsonLinesTest, LongTextsComeInPiecesAndErrorsStopThem) {
  std::string line = "{\"text\":\"";
  for (int i = 0; i < 100000; ++i) line += i % 3 == 0 ? "\\u20ac" : "\u00e9";
  line += "\"}";
  const JsonLine scanned = ScanJsonLine(line, "text");
  ASSERT_EQ(static_cast<int>(scanned.kind), static_cast<int>(kText));
  size_t bytes = 0;
  int pieces = 0;
  EXPECT_OK(DecodeJsonString(scanned.raw, [&](absl::string_view piece) {
    EXPECT_LE(piece.size(), 65536u);
    bytes += piece.size();
    ++pieces;
    return absl::OkStatus();
  }));
  EXPECT_EQ(bytes, 33334u * 3 + 66666u * 2);
  EXPECT_EQ(pieces, 4);
  pieces = 0;
  EXPECT_THAT(DecodeJsonString(scanned.raw,
                               [&](absl::string_view) {
                                 ++pieces;
                                 return absl::InternalError("full");
                               }),
              StatusIs(absl::StatusCode::kInternal, "full"));
  EXPECT_EQ(pieces, 1);
}

}  // namespace
}  // namespace colossus
