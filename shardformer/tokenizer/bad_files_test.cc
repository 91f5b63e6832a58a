// Files that no tokenizer can be made of: each gives a status that names the fault.
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_replace.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "shardformer/tokenizer/load.h"
#include "shardformer/tokenizer/testing/small_tokenizer.h"

namespace colossus {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

absl::Status Load(const std::string& text) {
  const std::string path = JoinPath(::testing::TempDir(), "bad_tokenizer.json");
  EXPECT_OK(RealFileSystem().WriteFileAtomically(path, text));
  return LoadTokenizer(RealFileSystem(), path).status();
}

TEST(BadFilesTest, ChangedMembers) {
  const struct {
    std::function<void(json&)> change;
    absl::StatusCode code;
    const char* message;
  } cases[] = {
      {[](json& j) { j = json::array(); }, absl::StatusCode::kInvalidArgument, "an object"},
      {[](json& j) { j.erase("model"); }, absl::StatusCode::kInvalidArgument, "model"},
      {[](json& j) { j["model"] = {{"type", "WordPiece"}}; }, absl::StatusCode::kUnimplemented,
       "model.type is \"WordPiece\""},
      {[](json& j) { j["truncation"] = {{"max_length", 5}}; }, absl::StatusCode::kUnimplemented,
       "truncation"},
      {[](json& j) { j["padding"] = {{"strategy", "BatchLongest"}}; },
       absl::StatusCode::kUnimplemented, "padding"},
      {[](json& j) { j["extra"] = {1}; }, absl::StatusCode::kUnimplemented, "extra"},
      {[](json& j) { j["decoder"] = nullptr; }, absl::StatusCode::kUnimplemented, "decoder"},
      {[](json& j) { j["decoder"] = {{"type", "WordPiece"}}; }, absl::StatusCode::kUnimplemented,
       "decoder.type is \"WordPiece\""},
      {[](json& j) { j["post_processor"] = {{"type", "Other"}}; },
       absl::StatusCode::kUnimplemented, "post_processor.type"},
      {[](json& j) { j["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"x", 900}},
                                            {"cls", {"x", 1}}}; },
       absl::StatusCode::kInvalidArgument, "id 900"},
      {[](json& j) {
         j["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", {{{"SpecialToken", {{"id", "q"}}}}}}};
       },
       absl::StatusCode::kInvalidArgument, "special_tokens[\"q\"]"},
      {[](json& j) { j["post_processor"] = {{"type", "TemplateProcessing"},
                                            {"single", json::array()}}; },
       absl::StatusCode::kUnimplemented, "leaves the text out"},
      {[](json& j) { j["added_tokens"] = 3; }, absl::StatusCode::kInvalidArgument, "added_tokens"},
      {[](json& j) { j["added_tokens"][0]["id"] = "x"; }, absl::StatusCode::kInvalidArgument,
       "added_tokens[0].id"},
      {[](json& j) { j["added_tokens"][0]["id"] = 1e30; }, absl::StatusCode::kInvalidArgument,
       "added_tokens[0].id"},
      {[](json& j) { j["added_tokens"][0]["id"] = 97; }, absl::StatusCode::kInvalidArgument,
       "added_tokens[0] gives id 97"},
      {[](json& j) { j["added_tokens"][0]["content"] = ""; }, absl::StatusCode::kInvalidArgument,
       "added_tokens[0].content"},
      {[](json& j) { j["added_tokens"][0]["content"] = "us"; }, absl::StatusCode::kInvalidArgument,
       "added_tokens[0] gives id 260"},
      {[](json& j) { j["added_tokens"].push_back(AddedTokenJson(261, "<|endoftext|>")); },
       absl::StatusCode::kInvalidArgument, "added_tokens[1]"},
      {[](json& j) { j["added_tokens"].push_back(AddedTokenJson(260, "other")); },
       absl::StatusCode::kInvalidArgument, "added_tokens[1]"},
      {[](json& j) { j["added_tokens"][0]["lstrip"] = "no"; }, absl::StatusCode::kInvalidArgument,
       "added_tokens[0].lstrip"},
  };
  for (const auto& c : cases) {
    json description = SmallTokenizerJson();
    c.change(description);
    EXPECT_THAT(Load(description.dump()),
                StatusIs(c.code, AllOf(HasSubstr("bad_tokenizer.json"), HasSubstr(c.message))));
  }
}

TEST(BadFilesTest, BadText) {
  const std::string good = SmallTokenizerJson().dump();
  ASSERT_OK(Load(good));
  const struct {
    std::string text;
    const char* message;
  } cases[] = {
      {"", "bad_tokenizer.json"},
      {good.substr(0, good.size() / 2), "bad_tokenizer.json"},
      {absl::StrReplaceAll(good, {{"\"us\":256", "\"us\":256,\"us\":256"}}), "given twice"},
      {absl::StrReplaceAll(good, {{"\"us\":256", "\"u\xFFs\":256"}}), "bad_tokenizer.json"},
      {absl::StrReplaceAll(good, {{"\"us\":256", "\"us\":1e999"}}), "bad_tokenizer.json"},
      {absl::StrReplaceAll(good, {{"\"us\":256", "\"us\":123456789012345678901234567890"}}),
       "bad_tokenizer.json"},
      {std::string(100000, '['), "inside each other"},
      {absl::StrReplaceAll(good, {{"\"merges\":[", "\"merges\":[" + std::string(200, '[')}}),
       "inside each other"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(Load(c.text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)))
        << c.message;
  }
}

}  // namespace
}  // namespace colossus
