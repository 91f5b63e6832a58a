// Field case F1: ids and decoded texts are those of the `tokenizers` library, for random texts that
// mix scripts, marks, spaces, emoji and added tokens. tools/goldens/compare_tokenizers.py wrote the
// files; it compares as many more texts as one likes.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "shardformer/tokenizer/byte_level.h"
#include "shardformer/tokenizer/unicode.h"
#include "tensor/io/json.h"

namespace colossus {
namespace {

constexpr char kFolder[] = "tests/golden/tokenizers";

class GoldenTokenizersTest : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenTokenizersTest, F1IdsOfTheLibrary) {
  ASSERT_OK_AND_ASSIGN(
      const nlohmann::json golden,
      ReadJsonFile(RealFileSystem(), JoinPath(kFolder, std::string(GetParam()) + ".json")));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ByteLevelTokenizer> tokenizer,
                       ByteLevelTokenizer::Parse(golden.at("tokenizer"), /*text=*/""));
  ASSERT_GE(golden.at("cases").size(), 100u);
  for (const nlohmann::json& wanted : golden.at("cases")) {
    std::vector<int32_t> ids = tokenizer->frame().before;
    ASSERT_OK_AND_ASSIGN(const std::vector<int32_t> own,
                         tokenizer->Encode(wanted.at("text").get<std::string>()));
    ids.insert(ids.end(), own.begin(), own.end());
    const std::vector<int32_t>& after = tokenizer->frame().after;
    ids.insert(ids.end(), after.begin(), after.end());
    EXPECT_EQ(ids, wanted.at("ids").get<std::vector<int32_t>>()) << wanted.at("text");
    EXPECT_EQ(LossyUtf8(tokenizer->Decode(ids, SpecialTokens::kSkip)),
              wanted.at("decoded").get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTokenizersTest,
                         ::testing::Values("gpt2_prefix", "llama3", "qwen2", "starcoder2",
                                           "deepseek_v3", "o200k"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace colossus
