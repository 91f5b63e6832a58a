#include "trainers/lib/data/data.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shardformer/tokenizer/bytes.h"
#include "shardformer/tokenizer/load.h"
#include "shardformer/tokenizer/testing/small_tokenizer.h"
#include "trainers/lib/config/config.h"
#include "trainers/lib/config/options.h"
#include "trainers/lib/data/rows.h"
#include "trainers/lib/data/token_store.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = JoinPath(testing::TempDir(), name);
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

absl::StatusOr<DataSet> Load(const Options::Data& options, int64_t vocabulary = 257) {
  const BytesTokenizer tokenizer;
  return LoadData(RealFileSystem(), options,
                  {.tokenizer = &tokenizer, .sequence_length = 4, .vocabulary = vocabulary});
}

// All rows.
Batch Everything(const RowSource& rows) {
  std::vector<int64_t> ids(static_cast<size_t>(rows.rows()));
  std::iota(ids.begin(), ids.end(), 0);
  Batch batch;
  FillBatch(rows, ids, rows.rows(), &batch);
  return batch;
}

TEST(LoadDataTest, TextBecomesRows) {
  Options::Data options;
  options.file = WriteFile("a.txt", "hello, world");
  ASSERT_OK_AND_ASSIGN(const DataSet data, Load(options));
  EXPECT_EQ(data.validation, nullptr);
  EXPECT_EQ(data.train->rows(), 3);
  const Batch batch = Everything(*data.train);
  EXPECT_EQ(batch.counting_tokens, 12) << "11 letters and the end";
  EXPECT_EQ(data.train->TextBytes(data.token_bytes), 12);
  EXPECT_THAT(data.summary, HasSubstr("1 documents, 12 bytes, 13 tokens"));
}

TEST(LoadDataTest, ValidationShareAndValidationFile) {
  Options::Data options;
  std::string text;
  for (int i = 0; i < 40; ++i) text += "line\n%\n";
  options.file = WriteFile("fortunes", text);
  options.format = "fortune";
  options.validation_share = 0.1;
  ASSERT_OK_AND_ASSIGN(DataSet data, Load(options));
  EXPECT_EQ(Everything(*data.train).counting_tokens, 36 * 6 - 1);
  EXPECT_EQ(Everything(*data.validation).counting_tokens, 4 * 6 - 1);

  options.validation_share = 0;
  options.validation_file = WriteFile("held", "other\n");
  ASSERT_OK_AND_ASSIGN(data, Load(options));
  EXPECT_EQ(Everything(*data.train).counting_tokens, 40 * 6 - 1);
  EXPECT_EQ(Everything(*data.validation).counting_tokens, 6);
}

TEST(LoadDataTest, TokenFilesGiveTheSameRows) {
  Options::Data options;
  options.file = WriteFile("a.txt", "hello, world");
  ASSERT_OK_AND_ASSIGN(const DataSet text, Load(options));
  const BytesTokenizer tokenizer;
  TokenStoreBuilder builder(tokenizer);
  ASSERT_OK(builder.Text("hello, world"));
  ASSERT_OK(builder.EndDocument());
  options.file = JoinPath(testing::TempDir(), "a.tokens");
  ASSERT_OK(WriteTokenFile(RealFileSystem(), options.file, std::move(builder).Finish()));
  ASSERT_OK_AND_ASSIGN(const DataSet tokens, Load(options));
  EXPECT_EQ(Everything(*tokens.train).ids, Everything(*text.train).ids);

  ASSERT_OK(WriteTokenFile(RealFileSystem(), options.file, TokenStore::FromIds({1, 6}, {2}, 7, 6)));
  EXPECT_THAT(Load(options).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("vocabulary of 7")));
}

// Protects: a model with a tokenizer of its own is not fed bytes without a word.
TEST(FindTokenizerTest, TheDirectorysOwnUnlessAnotherIsGiven) {
  FileSystem& files = RealFileSystem();
  Options options;
  EXPECT_THAT(FindTokenizer(files, options, {}), StatusIs(absl::StatusCode::kNotFound));
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Tokenizer> found, FindTextTokenizer(files, options, {}));
  EXPECT_EQ(found->vocabulary_size(), 257);
  options.model.directory = JoinPath(testing::TempDir(), "foreign");
  ASSERT_OK(files.MakeDirs(options.model.directory));
  EXPECT_THAT(FindTokenizer(files, options, {}), StatusIs(absl::StatusCode::kNotFound));
  WriteFile("foreign/tokenizer.json", SmallTokenizerJson().dump());
  ASSERT_OK_AND_ASSIGN(found, FindTextTokenizer(files, options, {}));
  EXPECT_EQ(found->vocabulary_size(), kSmallVocabulary);
  EXPECT_EQ(found->end_id(), kSmallEnd);
  WriteFile("foreign/tokenizer.json", R"({"model": {"type": "WordPiece"}})");
  EXPECT_THAT(FindTextTokenizer(files, options, {}),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr("model.type is \"WordPiece\""), HasSubstr("--tokenizer="))));
  options.data.tokenizer = "bytes";
  EXPECT_OK(FindTokenizer(files, options, {}));
  options.data.tokenizer = "nowhere";
  EXPECT_THAT(FindTokenizer(files, options, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nowhere")));
}

// Protects: a checkpoint is used with the tokenizer its run had.
TEST(FindTokenizerTest, CheckpointsHaveTheirRunsTokenizer) {
  FileSystem& files = RealFileSystem();
  const std::string out = JoinPath(testing::TempDir(), "run");
  ASSERT_OK(files.MakeDirs(JoinPath(out, "checkpoints")));
  WriteFile("run/checkpoints/tokenizer.json", SmallTokenizerJson().dump());
  Options options;
  options.model.directory = out;
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Tokenizer> found, FindTokenizer(files, options, {}));
  EXPECT_EQ(found->vocabulary_size(), kSmallVocabulary);
}

TEST(LoadDataTest, TextThatIsNoUtf8NamesFileAndDocument) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Tokenizer> tokenizer,
                       LoadTokenizer(RealFileSystem(), WriteFile("small.json",
                                                                 SmallTokenizerJson().dump())));
  Options::Data options;
  options.file = WriteFile("latin1", "fine\n%\ncaf\xE9\n");
  options.format = "fortune";
  EXPECT_THAT(LoadData(RealFileSystem(), options,
                       {.tokenizer = tokenizer.get(), .sequence_length = 4, .vocabulary = 600})
                  .status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("latin1: document 2"), HasSubstr("byte 3"))));
}

}  // namespace
}  // namespace colossus
