// Damaged graph text: parsing never crashes, hangs or reads out of bounds (tools/test runs it under
// AddressSanitizer), and what still parses is a graph that verifies and prints itself.
#include <random>
#include <string>
#include <vector>

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/graph/text.h"
#include "tensor/testing/random_graph.h"

namespace colossus {
namespace {

class Damage {
 public:
  explicit Damage(uint64_t seed) : random_(seed) {}

  std::string Apply(std::string text) {
    for (size_t times = 1 + Below(3); times-- > 0 && !text.empty();) Once(text);
    return text;
  }

 private:
  size_t Below(size_t n) { return random_() % n; }

  void Once(std::string& text) {
    static const std::vector<std::string> kPieces = {
        "-", "9223372036854775807", "99999999999999999999", "-1", "0", "0x1p+1023", "1e999", "inf",
        "nan", "[", "]", "{", "}", "(", ")", "\"", "\\", "%", "@", ",", "=", ":", ";", "#", "\n",
        "[]i", "[]f", "[]s", "true", "clone=1", "clone=2147483648", "sharded([a], [a]; [a])",
        "tier(disk)", "bool", "f32[]", "f64[1,1,1,1,1,1,1,1,1]", "i64[4611686018427387904]",
        "[4294967296,4294967296,4294967296]", "dtype=\"f32\"", "spec=\"a (b c) -> c\"",
        "dims=[-1]", "dims=[9223372036854775807, 2]", "perm=[0, 0]", "with=[\"seed\", \"seed\"]",
        std::string(1, '\0'), "\xff"};
    size_t at = Below(text.size());
    switch (Below(6)) {
      case 0: text.erase(at, 1 + Below(8)); return;
      case 1: text[at] = static_cast<char>(random_()); return;
      case 2: text.insert(at, kPieces[Below(kPieces.size())]); return;
      case 3: text.insert(at, text.substr(Below(text.size()), 1 + Below(40))); return;
      case 4: text.resize(at); return;
      default: ReplaceNumber(text, at);
    }
  }

  // The next run of digits becomes another number.
  void ReplaceNumber(std::string& text, size_t at) {
    size_t begin = text.find_first_of("0123456789", at);
    if (begin == std::string::npos) return;
    size_t end = text.find_first_not_of("0123456789", begin);
    static const char* const kNumbers[] = {"0", "1", "2", "-1", "4294967296",
                                           "9223372036854775807", "-9223372036854775808"};
    text.replace(begin, end == std::string::npos ? end : end - begin, kNumbers[Below(7)]);
  }

  std::mt19937_64 random_;
};

TEST(TextFuzzTest, DamagedTextIsRefusedOrAGraph) {
  uint64_t seed = TestSeed();
  Damage damage(seed);
  int parsed = 0, refused = 0;
  for (uint64_t g = 0; g < 40; ++g) {
    std::string text = ToText(RandomGraph(seed + g, {.steps = 8}));
    for (int i = 0; i < 300; ++i) {
      std::string damaged = damage.Apply(text);
      SCOPED_TRACE(damaged);
      absl::StatusOr<Graph> graph = ParseGraph(damaged);
      if (!graph.ok()) {
        ++refused;
        ASSERT_THAT(graph, StatusIs(absl::StatusCode::kInvalidArgument,
                                    ::testing::StartsWith("line ")));
        continue;
      }
      ++parsed;
      std::string printed = ToText(*graph);
      ASSERT_OK_AND_ASSIGN(Graph again, ParseGraph(printed));
      ASSERT_EQ(ToText(again), printed);
    }
  }
  // The damage is neither always fatal nor never.
  EXPECT_GT(parsed, 100);
  EXPECT_GT(refused, 3000);
}

TEST(TextFuzzTest, ManyTokensOfOneKindEndSoon) {
  for (const char* piece : {"[", "{", "(", "%x,", "\"a\",", "#", "-", "@"}) {
    std::string text = "graph g { feed %x: f32[] %y: f32[] = convert(";
    for (int i = 0; i < 200000; ++i) text += piece;
    EXPECT_THAT(ParseGraph(text), StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

}  // namespace
}  // namespace colossus
