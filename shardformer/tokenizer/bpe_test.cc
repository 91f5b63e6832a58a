#include "shardformer/tokenizer/bpe.h"

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "shardformer/tokenizer/byte_symbols.h"

namespace colossus {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int32_t> Encode(const Bpe& bpe, absl::string_view piece, BpeScratch* scratch) {
  std::vector<int32_t> ids;
  bpe.Encode(piece, scratch, &ids);
  return ids;
}

json Letters(const char* letters) {
  json vocabulary;
  for (int i = 0; letters[i] != '\0'; ++i) vocabulary[std::string(1, letters[i])] = i;
  return {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}};
}

// The definition: merge the leftmost pair of the first merge that fits, until none fits.
std::vector<int32_t> Definition(const json& model, const std::string& piece) {
  std::map<std::pair<std::string, std::string>, size_t> ranks;
  for (size_t i = 0; i < model["merges"].size(); ++i) {
    ranks[{model["merges"][i][0], model["merges"][i][1]}] = i;
  }
  std::vector<std::string> parts;
  for (const char c : piece) parts.emplace_back(1, c);
  for (;;) {
    size_t best = ranks.size(), at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ranks.find({parts[i], parts[i + 1]});
      if (found == ranks.end() || found->second >= best) continue;
      best = found->second;
      at = i;
    }
    if (best == ranks.size()) break;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<int64_t>(at) + 1);
  }
  std::vector<int32_t> ids;
  for (const std::string& part : parts) ids.push_back(model["vocab"][part]);
  return ids;
}

// Short pieces, long ones and cached ones, against the definition.
TEST(BpeTest, RandomMergesFollowTheDefinition) {
  std::mt19937 random(static_cast<uint32_t>(TestSeed()));
  json model = Letters("abc");
  std::vector<std::string> tokens = {"a", "b", "c"};
  while (model["merges"].size() < 40) {
    const std::string left = tokens[random() % tokens.size()];
    const std::string right = tokens[random() % tokens.size()];
    if (model["vocab"].contains(left + right)) continue;
    model["vocab"][left + right] = tokens.size();
    tokens.push_back(left + right);
    model["merges"].push_back({left, right});
  }
  absl::StatusOr<Bpe> bpe = Bpe::Parse(model, "model");
  ASSERT_OK(bpe.status());
  BpeScratch scratch;
  for (int i = 0; i < 400; ++i) {
    std::string piece;
    const size_t size = 1 + random() % (i % 10 == 0 ? 300 : 12);
    while (piece.size() < size) piece += static_cast<char>('a' + random() % 3);
    EXPECT_EQ(Encode(*bpe, piece, &scratch), Definition(model, piece)) << piece;
  }
}

TEST(BpeTest, BothSpellingsOfMerges) {
  json model = Letters("ab");
  model["vocab"]["ab"] = 2;
  BpeScratch scratch;
  for (const json& merge : {json("a b"), json{"a", "b"}}) {
    model["merges"] = json::array({merge});
    absl::StatusOr<Bpe> bpe = Bpe::Parse(model, "model");
    ASSERT_OK(bpe.status());
    EXPECT_THAT(Encode(*bpe, "ab", &scratch), ElementsAre(2));
  }
}

TEST(BpeTest, IgnoreMergesLooksWholePiecesUp) {
  json model = Letters("ab");
  model["vocab"]["aba"] = 5;
  BpeScratch scratch, other;
  absl::StatusOr<Bpe> bpe = Bpe::Parse(model, "model");
  ASSERT_OK(bpe.status());
  EXPECT_THAT(Encode(*bpe, "aba", &scratch), ElementsAre(0, 1, 0));
  model["ignore_merges"] = true;
  bpe = Bpe::Parse(model, "model");
  ASSERT_OK(bpe.status());
  EXPECT_THAT(Encode(*bpe, "aba", &other), ElementsAre(5));
  EXPECT_THAT(Encode(*bpe, "abab", &other), ElementsAre(0, 1, 0, 1));
}

TEST(BpeTest, UnknownBytes) {
  json model = Letters("ab?");
  BpeScratch plain, unknown, fused;
  absl::StatusOr<Bpe> bpe = Bpe::Parse(model, "model");
  ASSERT_OK(bpe.status());
  EXPECT_THAT(Encode(*bpe, "axyb", &plain), ElementsAre(0, 1));
  model["unk_token"] = "?";
  bpe = Bpe::Parse(model, "model");
  ASSERT_OK(bpe.status());
  EXPECT_THAT(Encode(*bpe, "axyb", &unknown), ElementsAre(0, 2, 2, 1));
  model["fuse_unk"] = true;
  bpe = Bpe::Parse(model, "model");
  ASSERT_OK(bpe.status());
  EXPECT_THAT(Encode(*bpe, "axybx", &fused), ElementsAre(0, 2, 1, 2));
}

TEST(BpeTest, Refuses) {
  const struct {
    const char* member;
    json value;
    absl::StatusCode code;
    const char* message;
  } cases[] = {
      {"type", "Unigram", absl::StatusCode::kUnimplemented, "model.type is \"Unigram\""},
      {"dropout", 0.1, absl::StatusCode::kUnimplemented, "model.dropout is 0.1"},
      {"byte_fallback", true, absl::StatusCode::kUnimplemented, "model.byte_fallback"},
      {"end_of_word_suffix", "</w>", absl::StatusCode::kUnimplemented, "</w>"},
      {"continuing_subword_prefix", "##", absl::StatusCode::kUnimplemented, "##"},
      {"depth", 3, absl::StatusCode::kUnimplemented, "model.depth is 3"},
      {"unk_token", "<unk>", absl::StatusCode::kInvalidArgument, "model.unk_token"},
      {"unk_token", 3, absl::StatusCode::kInvalidArgument, "model.unk_token"},
      {"ignore_merges", 1, absl::StatusCode::kInvalidArgument, "model.ignore_merges"},
      {"vocab", {"a"}, absl::StatusCode::kInvalidArgument, "model.vocab must be an object"},
      {"vocab", json::object(), absl::StatusCode::kInvalidArgument, "with tokens"},
      {"vocab", {{"a", "0"}}, absl::StatusCode::kInvalidArgument, "model.vocab[\"a\"]"},
      {"vocab", {{"a", -1}}, absl::StatusCode::kInvalidArgument, "model.vocab[\"a\"]"},
      {"vocab", {{"a", 1.5}}, absl::StatusCode::kInvalidArgument, "model.vocab[\"a\"]"},
      {"vocab", {{"a", 4294967296}}, absl::StatusCode::kInvalidArgument, "model.vocab[\"a\"]"},
      {"vocab", {{"a", UINT64_MAX}}, absl::StatusCode::kInvalidArgument, "model.vocab[\"a\"]"},
      {"vocab", {{"a", 1}, {"b", 1}}, absl::StatusCode::kInvalidArgument, "another token"},
      {"merges", "a b", absl::StatusCode::kInvalidArgument, "model.merges must be a list"},
      {"merges", {"ab"}, absl::StatusCode::kInvalidArgument, "model.merges[0]"},
      {"merges", {"a b c"}, absl::StatusCode::kInvalidArgument, "model.merges[0]"},
      {"merges", {{"a", "b", "c"}}, absl::StatusCode::kInvalidArgument, "model.merges[0]"},
      {"merges", {"a a", "a b"}, absl::StatusCode::kInvalidArgument, "needs the token \"aa\""},
      {"merges", {"z a"}, absl::StatusCode::kInvalidArgument, "needs the token \"z\""},
      {"merges", {5}, absl::StatusCode::kInvalidArgument, "model.merges[0]"},
  };
  for (const auto& c : cases) {
    json model = Letters("ab");
    model[c.member] = c.value;
    EXPECT_THAT(Bpe::Parse(model, "model").status(), StatusIs(c.code, HasSubstr(c.message)))
        << c.member << c.value;
  }
}

TEST(ByteSymbolsTest, EachByteHasOne) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) {
    ASSERT_TRUE(BytesOfSymbols(ByteSymbol(byte), &bytes));
    EXPECT_EQ(bytes, std::string(1, static_cast<char>(byte)));
  }
  EXPECT_FALSE(BytesOfSymbols("a b", &bytes));
  EXPECT_FALSE(BytesOfSymbols("\u2581", &bytes));
}

}  // namespace
}  // namespace colossus
