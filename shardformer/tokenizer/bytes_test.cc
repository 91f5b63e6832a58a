#include "shardformer/tokenizer/bytes.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace colossus {
namespace {

using ::testing::ElementsAre;

TEST(BytesTokenizerTest, IdIsByteValueAndEndIs256) {
  const BytesTokenizer tokenizer;
  EXPECT_THAT(*tokenizer.Encode("a\n\xC3\xBC"), ElementsAre(97, 10, 0xC3, 0xBC));
  EXPECT_THAT(*tokenizer.Encode("<|endoftext|>x"), ElementsAre(256, 120));
  EXPECT_EQ(tokenizer.vocabulary_size(), 257);
  EXPECT_EQ(tokenizer.end_id(), 256);
  EXPECT_EQ(tokenizer.TextBytes(65), 1);
  EXPECT_EQ(tokenizer.TextBytes(256), 0);
}

TEST(BytesTokenizerTest, EveryByteRoundTrips) {
  const BytesTokenizer tokenizer;
  std::string all;
  for (int b = 0; b < 256; ++b) all += static_cast<char>(b);
  EXPECT_EQ(tokenizer.Decode(*tokenizer.Encode(all), SpecialTokens::kSkip), all);
  const std::vector<int32_t> ids = {104, 256, 105};
  EXPECT_EQ(tokenizer.Decode(ids, SpecialTokens::kSkip), "hi");
  EXPECT_EQ(tokenizer.Decode(ids, SpecialTokens::kKeep), "h<|endoftext|>i");
}

// For each cut, encoding the safe prefix and then the rest is encoding the whole.
TEST(BytesTokenizerTest, SafePrefixNeverSplitsTheEndToken) {
  const BytesTokenizer tokenizer;
  const std::string text = "a<|<|endoftext|><|endof|x<|endoftext";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const size_t safe = tokenizer.SafePrefix(absl::string_view(text).substr(0, cut));
    ASSERT_LE(safe, cut);
    std::vector<int32_t> ids = *tokenizer.Encode(text.substr(0, safe));
    const std::vector<int32_t> rest = *tokenizer.Encode(text.substr(safe));
    ids.insert(ids.end(), rest.begin(), rest.end());
    EXPECT_EQ(ids, *tokenizer.Encode(text)) << "cut at " << cut;
  }
}

TEST(BytesTokenizerTest, TokenizerJsonHasEveryByteSymbolOnce) {
  const nlohmann::json root = nlohmann::json::parse(BytesTokenizer().TokenizerJson());
  const nlohmann::json& vocabulary = root["model"]["vocab"];
  EXPECT_EQ(vocabulary.size(), 257u);
  std::set<int> ids;
  for (const auto& [symbol, id] : vocabulary.items()) ids.insert(id.get<int>());
  EXPECT_EQ(ids.size(), 257u);
  // The symbols that byte-level vocabularies use for A, space, newline, 0x7F, 0xAD and 0xFF.
  EXPECT_EQ(vocabulary["A"], 65);
  EXPECT_EQ(vocabulary["\u0120"], 32);
  EXPECT_EQ(vocabulary["\u010A"], 10);
  EXPECT_EQ(vocabulary["\u0121"], 0x7F);
  EXPECT_EQ(vocabulary["\u0143"], 0xAD);
  EXPECT_EQ(vocabulary["\u00FF"], 0xFF);
  EXPECT_EQ(root["added_tokens"][0]["id"], 256);
}

TEST(BytesTokenizerTest, TokenizerConfigNamesTheEndToken) {
  const nlohmann::json root = nlohmann::json::parse(BytesTokenizer().TokenizerConfigJson(256));
  EXPECT_EQ(root["eos_token"], "<|endoftext|>");
  EXPECT_EQ(root["model_max_length"], 256);
}

}  // namespace
}  // namespace colossus
