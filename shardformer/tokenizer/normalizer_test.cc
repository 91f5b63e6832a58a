#include "shardformer/tokenizer/normalizer.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "shardformer/tokenizer/pattern.h"

namespace colossus {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

TEST(NormalizerTest, Kinds) {
  const json nfc = {{"type", "NFC"}}, nfd = {{"type", "NFD"}};
  const json replace = {{"type", "Replace"}, {"pattern", {{"String", "."}}}, {"content", "-"}};
  const struct {
    json description;
    const char *text, *result;
  } cases[] = {
      {nullptr, "u\u0308", "u\u0308"},
      {nfc, "u\u0308\u1100\u1161\uFB01", "\u00FC\uAC00\uFB01"},
      {nfd, "\u00FC\uAC00", "u\u0308\u1100\u1161"},
      {{{"type", "NFKC"}}, "\uFB01\u2460", "fi1"},
      {{{"type", "NFKD"}}, "\u1E9B\u0323", "s\u0323\u0307"},
      // Marks newer than the tables of the files' makers stay where they are: U+0898 is of class
      // 220, which would go before the 230 of U+0308.
      {nfd, "a\u0308\u0323", "a\u0323\u0308"},
      {nfd, "a\u0308\u0898", "a\u0308\u0898"},
      {{{"type", "Prepend"}, {"prepend", "_"}}, "a", "_a"},
      {{{"type", "Prepend"}, {"prepend", "_"}}, "", ""},
      {replace, "a.b..", "a-b--"},
      {{{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}},
       " \u3000a b\u00A0\n", "a b"},
      {{{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}}, " a ", " a"},
      {{{"type", "Sequence"}, {"normalizers", {nfd, replace}}}, "\u00FC.", "u\u0308-"},
  };
  for (const auto& c : cases) {
    absl::StatusOr<Normalizer> made = Normalizer::Parse(c.description, "normalizer");
    ASSERT_OK(made.status());
    Matcher matcher;
    EXPECT_EQ(made->Run(c.text, &matcher), c.result) << c.description;
    if (made->Keeps(c.text)) {
      EXPECT_EQ(made->Run(c.text, &matcher), c.text);
    }
    EXPECT_OK(matcher.status());
  }
}

// Marks are sorted, not bubbled up: else this takes hours.
TEST(NormalizerTest, ManyMarks) {
  constexpr int kPairs = 500000;
  std::string text = "a", above, below;
  for (int i = 0; i < kPairs; ++i) text += "\u0301\u0323";
  for (int i = 0; i < kPairs; ++i) above += "\u0301", below += "\u0323";
  Matcher matcher;
  const auto run = [&](const char* type) {
    const absl::StatusOr<Normalizer> made = Normalizer::Parse({{"type", type}}, "normalizer");
    EXPECT_OK(made.status());
    return made.ok() ? made->Run(text, &matcher) : "";
  };
  EXPECT_TRUE(run("NFD") == "a" + below + above);
  // a takes the first dot; there is no character of the two and an accent.
  EXPECT_TRUE(run("NFC") == "\u1EA1" + below.substr(2) + above);
}

TEST(NormalizerTest, Refuses) {
  const struct {
    json description;
    absl::StatusCode code;
    const char* message;
  } cases[] = {
      {{{"type", "Lowercase"}}, absl::StatusCode::kUnimplemented,
       "normalizer.type is \"Lowercase\""},
      {{{"type", "Replace"}, {"pattern", {{"Regex", "a+"}}}, {"content", ""}},
       absl::StatusCode::kUnimplemented, "normalizer.pattern"},
      {{{"type", "Sequence"}, {"normalizers", {{{"type", "Bert"}}}}},
       absl::StatusCode::kUnimplemented, "normalizer.normalizers[0].type"},
      {"NFC", absl::StatusCode::kInvalidArgument, "an object"},
      {{{"type", "Prepend"}}, absl::StatusCode::kInvalidArgument, "normalizer.prepend"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(Normalizer::Parse(c.description, "normalizer").status(),
                StatusIs(c.code, HasSubstr(c.message)));
  }
}

}  // namespace
}  // namespace colossus
