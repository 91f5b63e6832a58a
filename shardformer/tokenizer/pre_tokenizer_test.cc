#include "shardformer/tokenizer/pre_tokenizer.h"

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace colossus {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kLlama[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

json ByteLevel(bool regex, bool prefix = false) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", prefix},
          {"trim_offsets", true},
          {"use_regex", regex}};
}

json Split(json pattern, const char* behavior, bool invert = false) {
  return {{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", invert}};
}

json Sequence(std::vector<json> steps) {
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

// The pieces of `text`, joined by a character that no text here has.
std::string Pieces(const json& description, const std::string& text) {
  absl::StatusOr<PreTokenizer> pre = PreTokenizer::Parse(description, "pre_tokenizer");
  EXPECT_OK(pre.status());
  if (!pre.ok()) return "";
  PreTokenizerScratch scratch;
  std::vector<std::string> pieces;
  pre->Run(text, &scratch, [&](absl::string_view piece) { pieces.emplace_back(piece); });
  EXPECT_OK(scratch.matcher.status());
  return absl::StrJoin(pieces, "|");
}

TEST(PreTokenizerTest, F1UnusualTextByTheRulesOfGpt2AndLlama3) {
  const json gpt2 = ByteLevel(true);
  const json llama = Sequence({Split({{"Regex", kLlama}}, "Isolated"), ByteLevel(false)});
  const struct {
    const char *text, *gpt2, *llama;
  } cases[] = {
      {"I'll we'Re 1234567", "I|'ll| we|'|Re| 1234567", "I|'ll| we|'Re| |123|456|7"},
      {"  Hello\n\n  world  ", " | Hello|\n\n | world|  ", " | Hello|\n\n| | world|  "},
      {"F\u00FChrer Fu\u0308hrer", "F\u00FChrer| Fu|\u0308|hrer", "F\u00FChrer| Fu|\u0308hrer"},
      {"\u2029 \uA3E4", "\u2029| \uA3E4", "\u2029| \uA3E4"},
      {"a\r\nb", "a|\r|\n|b", "a|\r\n|b"},
      {"x\u00A0y\u200Bz", "x|\u00A0|y|\u200B|z", "x|\u00A0y|\u200Bz"},
      {"3\u00BD \u0663\u0664", "3\u00BD| \u0663\u0664", "3\u00BD| |\u0663\u0664"},
      {"\U0001F999.cpp", "\U0001F999.|cpp", "\U0001F999.|cpp"},
      {"tab\t\tend ", "tab|\t|\t|end| ", "tab|\t|\tend| "},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Pieces(gpt2, c.text), c.gpt2);
    EXPECT_EQ(Pieces(llama, c.text), c.llama);
  }
}

TEST(PreTokenizerTest, Behaviors) {
  const struct {
    const char* behavior;
    bool invert;
    const char* pieces;
  } cases[] = {
      {"Removed", false, "a|b|c"},
      {"Isolated", false, "a| | |b| |c"},
      {"MergedWithPrevious", false, "a | |b |c"},
      {"MergedWithNext", false, "a| | b| c"},
      {"Contiguous", false, "a|  |b| |c"},
      {"Removed", true, " | | "},
      {"MergedWithPrevious", true, "a| | b| c"},
      {"MergedWithNext", true, "a | |b |c"},
      {"Contiguous", true, "a|  |b| |c"},
  };
  for (const auto& c : cases) {
    for (const json& pattern : {json{{"String", " "}}, json{{"Regex", "\\s"}}}) {
      const json steps = Sequence({Split(pattern, c.behavior, c.invert), ByteLevel(false)});
      EXPECT_EQ(Pieces(steps, "a  b c"), c.pieces)
          << c.behavior << c.invert;
    }
  }
}

TEST(PreTokenizerTest, StepsWorkWithinPieces) {
  const json digits = {{"type", "Digits"}, {"individual_digits", true}};
  EXPECT_EQ(Pieces(Sequence({digits, ByteLevel(true)}), "ab12 3"), "ab|1|2| |3");
  json together = digits;
  together["individual_digits"] = false;
  EXPECT_EQ(Pieces(Sequence({together, ByteLevel(false)}), "ab12\u0663c"), "ab|12\u0663|c");
  // A space before each piece that has none; patterns do not see beyond their piece.
  EXPECT_EQ(Pieces(Sequence({digits, ByteLevel(true, true)}), "a1"), " a| 1");
  EXPECT_EQ(Pieces(Sequence({Split({{"Regex", "b"}}, "Isolated"),
                             Split({{"Regex", "a(?!b)"}}, "Isolated"), ByteLevel(false)}),
                   "aab"),
            "a|a|b");
  EXPECT_EQ(Pieces(Sequence({Sequence({digits}), Sequence({ByteLevel(false)})}), "a1"), "a|1");
  EXPECT_EQ(Pieces(ByteLevel(true), ""), "");
  // Empty matches cut, and give no pieces.
  const json empty = Sequence({Split({{"Regex", "x*"}}, "Isolated"), ByteLevel(false)});
  EXPECT_EQ(Pieces(empty, "axxb\u00FC"), "a|xx|b|\u00FC");
}

TEST(PreTokenizerTest, RefusesWithTheNameOfThePart) {
  const struct {
    json description;
    const char* message;
  } cases[] = {
      {nullptr, "pre_tokenizer is null"},
      {{{"type", "Metaspace"}}, "pre_tokenizer.type is \"Metaspace\""},
      {Sequence({ByteLevel(false), Split({{"String", " "}}, "Isolated")}),
       "pre_tokenizer.pretokenizers[1]"},
      {Sequence({Split({{"String", " "}}, "Isolated")}), "last step is ByteLevel"},
      {Sequence({Split({{"String", " "}}, "Joined"), ByteLevel(false)}), "behavior is \"Joined\""},
      {Sequence({Split({{"Regex", "\\w"}}, "Isolated"), ByteLevel(false)}),
       "pre_tokenizer.pretokenizers[0].pattern.Regex is \"\\\\w\""},
      {Sequence({Split({{"String", ""}}, "Isolated"), ByteLevel(false)}), "splits nothing"},
      {Sequence({Split({{"Glob", "*"}}, "Isolated"), ByteLevel(false)}), "Regex and String"},
      {{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"speed", 2}}, "pre_tokenizer.speed"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(PreTokenizer::Parse(c.description, "pre_tokenizer").status(),
                StatusIs(absl::StatusCode::kUnimplemented, HasSubstr(c.message)));
  }
  const json wrong[] = {
      5,
      {{"type", 5}},
      {{"type", "Sequence"}},
      {{"type", "Sequence"}, {"pretokenizers", {5}}},
      {{"type", "ByteLevel"}, {"use_regex", "yes"}},
      Sequence({Split("text", "Isolated"), ByteLevel(false)}),
      Sequence({Split({{"Regex", "(a"}}, "Isolated"), ByteLevel(false)}),
  };
  for (const json& description : wrong) {
    EXPECT_THAT(PreTokenizer::Parse(description, "pre_tokenizer").status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("pre_tokenizer")))
        << description;
  }
}

}  // namespace
}  // namespace colossus
