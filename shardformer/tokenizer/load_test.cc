#include "shardformer/tokenizer/load.h"

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "shardformer/tokenizer/bytes.h"

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
