#include "trainers/lib/data/token_store.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shardformer/tokenizer/bytes.h"
#include "trainers/lib/data/documents.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int32_t> All(const TokenStore& store) {
  std::vector<int32_t> ids(static_cast<size_t>(store.size()));
  store.Copy(0, absl::MakeSpan(ids));
  return ids;
}

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = JoinPath(testing::TempDir(), name);
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(TokenStoreTest, F5TokensOfIrregularJsonLines) {
  const std::string lines =
      "{\"text\":\"ab\"}\n\n{\"text\":\"\"}\n{\"txt\":\"x\"}\n{\"text\":\"c\"\n"
      "{\"text\":\"d\\r\\n\"}\r\n{\"text\":\"e\"}";
  // The same whether the empty document stands third or first.
  for (const std::string& text : {lines, "{\"text\":\"\"}\n" + lines}) {
    const BytesTokenizer tokenizer;
    TokenStoreBuilder builder(tokenizer);
    DocumentCounts counts;
    ASSERT_OK(ReadDocuments(RealFileSystem(),
                            {WriteFile("f5.jsonl", text), DocumentFormat::kJsonLines},
                            JsonLinesMode::kLenient, builder, &counts));
    const TokenStore store = std::move(builder).Finish();
    EXPECT_THAT(All(store), ElementsAre(97, 98, 256, 100, 13, 10, 256, 101, 256));
    EXPECT_EQ(store.documents(), 3);
    EXPECT_EQ(store.begin(1), 3);
    EXPECT_EQ(store.end(1), 7);
  }
}

TEST(TokenStoreTest, PiecesMayBeCutAnywhere) {
  const std::string text = "a<|endoftext|>b<|end";
  const BytesTokenizer tokenizer;
  for (size_t size = 1; size <= text.size(); ++size) {
    TokenStoreBuilder builder(tokenizer);
    for (size_t at = 0; at < text.size(); at += size) {
      ASSERT_OK(builder.Text(absl::string_view(text).substr(at, size)));
    }
    ASSERT_OK(builder.EndDocument());
    const TokenStore store = std::move(builder).Finish();
    EXPECT_THAT(All(store), ElementsAre(97, 256, 98, '<', '|', 'e', 'n', 'd', 256)) << size;
  }
}

TEST(TokenStoreTest, TokenFilesRoundTrip) {
  const std::string path = JoinPath(testing::TempDir(), "round.tokens");
  for (const int64_t vocabulary : {7, 65536, 65537, 200000}) {
    const std::vector<int32_t> ids = {5, 6, 0, static_cast<int32_t>(vocabulary - 1), 6};
    const TokenStore store = TokenStore::FromIds(ids, {3, 5}, vocabulary, 6);
    ASSERT_OK(WriteTokenFile(RealFileSystem(), path, store));
    ASSERT_OK_AND_ASSIGN(TokenStore mapped, MapTokenFile(RealFileSystem(), path));
    const TokenStore moved = std::move(mapped);
    EXPECT_EQ(All(moved), ids);
    EXPECT_EQ(moved.documents(), 2);
    EXPECT_EQ(moved.end(0), 3);
    EXPECT_EQ(moved.vocabulary(), vocabulary);
    EXPECT_EQ(moved.end_id(), 6);
  }
  const TokenStore empty = TokenStore::FromIds({}, {}, 7, 6);
  ASSERT_OK(WriteTokenFile(RealFileSystem(), path, empty));
  ASSERT_OK_AND_ASSIGN(TokenStore mapped, MapTokenFile(RealFileSystem(), path));
  EXPECT_EQ(mapped.size(), 0);
}

struct Damage {
  const char* name;
  size_t at;  // byte
  std::vector<unsigned char> bytes;
  const char* part;  // of the message
};

TEST(TokenStoreTest, BadTokenFilesAreRefused) {
  const std::string path = JoinPath(testing::TempDir(), "bad.tokens");
  ASSERT_OK(
      WriteTokenFile(RealFileSystem(), path, TokenStore::FromIds({5, 6, 1, 2, 6}, {2, 5}, 7, 6)));
  ASSERT_OK_AND_ASSIGN(const std::string good, RealFileSystem().ReadFile(path));
  ASSERT_EQ(good.size(), 64u + 16 + 16);
  const Damage cases[] = {
      {"magic", 0, {'X'}, "not a token file"},
      {"width", 8, {3}, "do not go together"},
      {"end id", 12, {7}, "do not go together"},
      {"vocabulary", 22, {1}, "do not go together"},
      {"many ids", 24, {255, 255, 255, 255, 255, 255, 255, 255}, "do not hold exactly"},
      {"many documents", 32, {255, 255, 255, 255, 255, 255, 255, 31}, "do not hold exactly"},
      {"one id more", 24, {9}, "do not hold exactly"},
      {"an id", 64, {7}, "id 7 at index 0 is outside the vocabulary"},
      {"falling border", 80, {6}, "do not increase"},
      {"border at 0", 80, {0}, "do not increase"},
      {"border past the end", 88, {6}, "do not increase"},
      {"ids after the last border", 88, {4}, "ends at 4 of 5"},
      {"negative border", 87, {0x80}, "do not increase"},
  };
  for (const Damage& c : cases) {
    std::string bad = good;
    for (size_t i = 0; i < c.bytes.size(); ++i) bad[c.at + i] = static_cast<char>(c.bytes[i]);
    EXPECT_THAT(MapTokenFile(RealFileSystem(), WriteFile("bad.tokens", bad)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         testing::AllOf(HasSubstr("bad.tokens"), HasSubstr(c.part))))
        << c.name;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(
        MapTokenFile(RealFileSystem(), WriteFile("bad.tokens", good.substr(0, size))).ok());
  }
}

}  // namespace
}  // namespace colossus
