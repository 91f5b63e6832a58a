#include "shardformer/tokenizer/byte_level.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "shardformer/tokenizer/testing/small_tokenizer.h"
#include "shardformer/tokenizer/tokenizer.h"

namespace colossus {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

constexpr int kAdded = 261;  // the first id that the small tokenizer leaves free

std::unique_ptr<ByteLevelTokenizer> Make(const json& description) {
  absl::StatusOr<std::unique_ptr<ByteLevelTokenizer>> made =
      ByteLevelTokenizer::Parse(description, description.dump());
  EXPECT_OK(made.status());
  return made.ok() ? *std::move(made) : nullptr;
}

Ids Encode(const Tokenizer& tokenizer, absl::string_view text) {
  absl::StatusOr<Ids> ids = tokenizer.Encode(text);
  EXPECT_OK(ids.status());
  return ids.ok() ? *ids : Ids{-1};
}

// The small tokenizer with <|s|> as id 261.
json WithAdded(const std::function<void(json&)>& change = nullptr) {
  json description = SmallTokenizerJson();
  json added = AddedTokenJson(kAdded, "<|s|>");
  if (change) change(added);
  description["added_tokens"].push_back(added);
  return description;
}

TEST(ByteLevelTest, F2WordsNextToAddedTokens) {
  json description = WithAdded();
  std::unique_ptr<ByteLevelTokenizer> never = Make(description);
  EXPECT_EQ(Encode(*never, "user"), Ids({258}));
  EXPECT_EQ(Encode(*never, "<|s|>user"), Ids({261, 258}));
  EXPECT_EQ(Encode(*never, "<|s|> user"), Ids({261, 259}));
  EXPECT_EQ(Encode(*never, "user<|s|>user"), Ids({258, 261, 258}));
  description["pre_tokenizer"]["add_prefix_space"] = true;
  std::unique_ptr<ByteLevelTokenizer> always = Make(description);
  EXPECT_EQ(Encode(*always, "user"), Ids({259}));
  EXPECT_EQ(Encode(*always, "<|s|>user"), Ids({261, 259}));
  EXPECT_EQ(Encode(*always, "<|s|> user"), Ids({261, 259}));
  EXPECT_EQ(Encode(*always, "user<|s|>user"), Ids({259, 261, 259}));
  std::unique_ptr<ByteLevelTokenizer> strips = Make(WithAdded([](json& added) {
    added["lstrip"] = true;
    added["rstrip"] = true;
  }));
  EXPECT_EQ(Encode(*strips, "user \t<|s|> \u3000user"), Ids({258, 261, 258}));
  EXPECT_EQ(Encode(*strips, "<|s|> <|s|>"), Ids({261, 261}));
}

TEST(ByteLevelTest, F2SingleWordsAndLongestFirst) {
  std::unique_ptr<ByteLevelTokenizer> single =
      Make(WithAdded([](json& added) { added["single_word"] = true; }));
  EXPECT_EQ(Encode(*single, "<|s|>").size(), 1u);
  EXPECT_EQ(Encode(*single, "(<|s|>)").size(), 3u);
  for (const char* text : {"a<|s|>", "<|s|>1", "_<|s|>", "<|s|>\u00FC", "<|s|>\u0308"}) {
    const Ids ids = Encode(*single, text);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), kAdded), 0) << text;
  }
  json description = WithAdded();
  description["added_tokens"].push_back(AddedTokenJson(262, "<|s|><|t|>"));
  description["added_tokens"].push_back(AddedTokenJson(263, "s|><"));
  std::unique_ptr<ByteLevelTokenizer> longest = Make(description);
  EXPECT_EQ(Encode(*longest, "<|s|><|t|>"), Ids({262}));
  EXPECT_EQ(Encode(*longest, "<|s|><|s|>"), Ids({261, 261}));
}

TEST(ByteLevelTest, AddedTokensBeforeAndAfterNormalization) {
  const auto with = [](bool normalized) {
    json description = WithAdded([&](json& added) {
      added["content"] = "x\u00FC";
      added["normalized"] = normalized;
    });
    description["normalizer"] = {{"type", "NFC"}};
    return Make(description);
  };
  EXPECT_EQ(Encode(*with(true), "xu\u0308"), Ids({261}));
  EXPECT_EQ(Encode(*with(true), "x\u00FC"), Ids({261}));
  EXPECT_EQ(Encode(*with(false), "x\u00FC"), Ids({261}));
  EXPECT_EQ(Encode(*with(false), "xu\u0308"), Ids({'x', 0xC3, 0xBC}));
}

TEST(ByteLevelTest, DecodesBytesAndLeavesSpecialTokensOut) {
  std::unique_ptr<ByteLevelTokenizer> tokenizer = Make(WithAdded());
  EXPECT_EQ(tokenizer->vocabulary_size(), 262);
  const Ids ids = {259, 0xFF, 260, 261};
  EXPECT_EQ(tokenizer->Decode(ids, SpecialTokens::kSkip), " user\xFF<|s|>");
  EXPECT_EQ(tokenizer->Decode(ids, SpecialTokens::kKeep), " user\xFF<|endoftext|><|s|>");
  EXPECT_EQ(tokenizer->TextBytes(259), 5);
  EXPECT_EQ(tokenizer->TextBytes(260), 0);
  EXPECT_EQ(tokenizer->TextBytes(261), 5);
  EXPECT_EQ(tokenizer->FindId("<|endoftext|>"), 260);
  EXPECT_EQ(tokenizer->FindId("nothing"), std::nullopt);
}

TEST(ByteLevelTest, FrameComesFromTheTemplate) {
  json description = WithAdded();
  const json token = {{"SpecialToken", {{"id", "<|s|>"}, {"type_id", 0}}}};
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  description["post_processor"] = {
      {"type", "Sequence"},
      {"processors",
       {description["post_processor"],
        {{"type", "TemplateProcessing"},
         {"single", {token, text, token, token}},
         {"pair", json::array()},
         {"special_tokens", {{"<|s|>", {{"id", "<|s|>"}, {"ids", {261}}}}}}}}}};
  std::unique_ptr<ByteLevelTokenizer> tokenizer = Make(description);
  EXPECT_THAT(tokenizer->frame().before, ElementsAre(261));
  EXPECT_THAT(tokenizer->frame().after, ElementsAre(261, 261));
  description["post_processor"] = {
      {"type", "RobertaProcessing"}, {"sep", {"x", 5}}, {"cls", {"y", 6}},
      {"trim_offsets", true},        {"add_prefix_space", false}};
  tokenizer = Make(description);
  EXPECT_THAT(tokenizer->frame().before, ElementsAre(6));
  EXPECT_THAT(tokenizer->frame().after, ElementsAre(5));
}

TEST(ByteLevelTest, RefusesBytesThatAreNoText) {
  EXPECT_THAT(Make(WithAdded())->Encode("ab\xFFz"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("byte 2")));
}

// Protects: texts that are read in pieces give the ids of the whole.
TEST(ByteLevelTest, SafePrefixesChangeNothing) {
  json description = WithAdded([](json& added) {
    added["lstrip"] = true;
    added["rstrip"] = true;
  });
  description["added_tokens"].push_back(AddedTokenJson(262, "er us"));
  std::unique_ptr<ByteLevelTokenizer> tokenizer = Make(description);
  std::mt19937 random(static_cast<uint32_t>(TestSeed()));
  const char* words[] = {"user", " user", "us", " ", "  ", "\n", "'s", "7", "<|s|>", "<|", "\u00FC",
                         "er us", "."};
  for (int i = 0; i < 20; ++i) {
    std::string text;
    while (text.size() < (40 << 10)) text += words[random() % std::size(words)];
    const size_t safe = tokenizer->SafePrefix(text);
    ASSERT_GT(safe, 0u);
    Ids ids = Encode(*tokenizer, absl::string_view(text).substr(0, safe));
    const Ids rest = Encode(*tokenizer, absl::string_view(text).substr(safe));
    ids.insert(ids.end(), rest.begin(), rest.end());
    ASSERT_EQ(ids, Encode(*tokenizer, text));
  }
  EXPECT_EQ(tokenizer->SafePrefix("user user"), 0u) << "short texts wait";
  const std::string plain(40 << 10, 'u');
  EXPECT_EQ(tokenizer->SafePrefix(plain), 0u) << "no space, no cut";
}

TEST(ByteLevelTest, FilesGiveTheTokenizerBack) {
  const json description = WithAdded();
  std::unique_ptr<ByteLevelTokenizer> tokenizer = Make(description);
  tokenizer->set_end_id(260);
  const std::vector<TokenizerFile> files = tokenizer->Files(1024);
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].name, "tokenizer.json");
  EXPECT_EQ(json::parse(files[0].contents), description);
  EXPECT_EQ(files[1].name, "tokenizer_config.json");
  EXPECT_EQ(json::parse(files[1].contents)["eos_token"], "<|endoftext|>");
  EXPECT_EQ(json::parse(files[1].contents)["model_max_length"], 1024);
}

}  // namespace
}  // namespace colossus
