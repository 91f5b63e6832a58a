#include "shardformer/tokenizer/load.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "shardformer/tokenizer/bytes.h"
#include "shardformer/tokenizer/testing/small_tokenizer.h"
#include "shardformer/tokenizer/tokenizer.h"

namespace colossus {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json Own() { return json::parse(BytesTokenizer().TokenizerJson()); }

TEST(LoadTokenizer, ReadsWhatIsExported) {
  FileSystem& files = RealFileSystem();
  const std::string directory = JoinPath(::testing::TempDir(), "bytes_model");
  ASSERT_OK(files.MakeDirs(directory));
  EXPECT_THAT(LoadTokenizer(files, JoinPath(directory, "missing")),
              StatusIs(absl::StatusCode::kNotFound));
  const std::string path = JoinPath(directory, "tokenizer.json");
  ASSERT_OK(files.WriteFileAtomically(path, BytesTokenizer().TokenizerJson()));
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = LoadTokenizer(files, directory);
  ASSERT_OK(tokenizer.status());
  EXPECT_EQ((*tokenizer)->vocabulary_size(), 257);
  ASSERT_OK(files.WriteFileAtomically(path, "{"));
  EXPECT_THAT(LoadTokenizer(files, directory), StatusIs(absl::StatusCode::kInvalidArgument));
}

// A folder with the small tokenizer as `change` leaves it, and with a config if that is not empty.
std::string Folder(const std::string& config, const std::function<void(json&)>& change = nullptr) {
  const std::string folder = JoinPath(::testing::TempDir(), "small_model");
  FileSystem& files = RealFileSystem();
  EXPECT_OK(files.RemoveTree(folder));
  EXPECT_OK(files.MakeDirs(folder));
  json description = SmallTokenizerJson();
  if (change) change(description);
  EXPECT_OK(files.WriteFileAtomically(JoinPath(folder, "tokenizer.json"), description.dump()));
  if (!config.empty()) {
    EXPECT_OK(files.WriteFileAtomically(JoinPath(folder, "tokenizer_config.json"), config));
  }
  return folder;
}

int32_t EndOf(const std::string& folder, const std::vector<int64_t>& model_end_ids = {}) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      LoadTokenizer(RealFileSystem(), folder, {.model_end_ids = model_end_ids});
  EXPECT_OK(tokenizer.status());
  return tokenizer.ok() ? (*tokenizer)->end_id() : -2;
}

TEST(LoadTokenizer, FindsTheEndToken) {
  const auto more = [](json& j) {
    j["added_tokens"].push_back(AddedTokenJson(261, "<|stop|>"));
    j["added_tokens"][1]["special"] = true;
  };
  EXPECT_EQ(EndOf(Folder("", more)), 260) << "by its usual name";
  EXPECT_EQ(EndOf(Folder(R"({"eos_token": "<|stop|>"})", more)), 261);
  EXPECT_EQ(EndOf(Folder(R"({"eos_token": {"content": "<|stop|>", "lstrip": false}})", more)), 261);
  EXPECT_EQ(EndOf(Folder(R"({"eos_token": null})", more)), 260);
  EXPECT_EQ(EndOf(Folder(R"({"eos_token": "<|endoftext|>"})", more), {261, 260}), 261)
      << "the model's own comes first";
  EXPECT_EQ(EndOf(Folder("", more), {97}), 260) << "97 is no special token";
  EXPECT_EQ(EndOf(Folder("", more), {50256}), 260) << "50256 is none at all";
  const auto without = [](json& j) { j["added_tokens"] = json::array(); };
  EXPECT_THAT(LoadTokenizer(RealFileSystem(), Folder("", without)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("eos_token")));
  absl::StatusOr<std::unique_ptr<Tokenizer>> any = LoadTokenizer(
      RealFileSystem(), Folder("", without), {.end = EndToken::kAny, .model_end_ids = {}});
  ASSERT_OK(any.status());
  EXPECT_EQ((*any)->end_id(), -1);
  EXPECT_THAT(LoadTokenizer(RealFileSystem(), Folder(R"({"eos_token": "</x>"})")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("</x>")));
  EXPECT_THAT(LoadTokenizer(RealFileSystem(), Folder(R"({"eos_token": 5})")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("must be a string")));
}

TEST(LoadTokenizer, TakesFilesAndFolders) {
  const std::string folder = Folder("");
  EXPECT_OK(LoadTokenizer(RealFileSystem(), folder).status());
  EXPECT_OK(LoadTokenizer(RealFileSystem(), JoinPath(folder, "tokenizer.json")).status());
}

TEST(CheckBytesTokenizer, AcceptsWhatGivesTheSameIds) {
  json written = Own();
  written["version"] = "1.1";
  written["pre_tokenizer"]["use_regex"] = true;  // without merges pieces do not matter
  written["post_processor"] = written["decoder"];
  written.erase("normalizer");
  EXPECT_OK(CheckBytesTokenizer(written, "t"));
}

TEST(CheckBytesTokenizer, RefusesEachDifference) {
  const struct {
    const char* message;
    std::function<void(json&)> change;
  } cases[] = {
      {"BPE", [](json& j) { j["model"]["type"] = "Unigram"; }},
      {"merges", [](json& j) { j["model"]["merges"] = {"a b"}; }},
      {"merges", [](json& j) { j["model"].erase("merges"); }},
      {"vocabulary", [](json& j) { j["model"]["vocab"]["a"] = 98; }},
      {"added tokens", [](json& j) { j["added_tokens"].push_back(j["added_tokens"][0]); }},
      {"added tokens", [](json& j) { j["added_tokens"][0]["content"] = "<eos>"; }},
      {"added tokens", [](json& j) { j["added_tokens"][0]["lstrip"] = true; }},
      {"normalizer", [](json& j) { j["normalizer"] = {{"type", "NFC"}}; }},
      {"pre_tokenizer", [](json& j) { j["pre_tokenizer"]["add_prefix_space"] = true; }},
      {"decoder", [](json& j) { j["decoder"] = nullptr; }},
      {"post_processor", [](json& j) { j["post_processor"] = {{"type", "BertProcessing"}}; }},
      {"BPE", [](json& j) { j = json::array(); }},
  };
  for (const auto& c : cases) {
    json changed = Own();
    c.change(changed);
    EXPECT_THAT(CheckBytesTokenizer(changed, "t.json"),
                StatusIs(absl::StatusCode::kUnimplemented, HasSubstr(c.message)));
  }
}

}  // namespace
}  // namespace colossus
