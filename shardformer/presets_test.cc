#include "shardformer/presets.h"

#include <cstdint>
#include <map>
#include <string>

#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shardformer/config.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

TEST(Presets, HaveTheirSizes) {
  // GPT-2: blocks 12 h^2 + 13 h each, 2 h behind them, tables of vocabulary and positions.
  const std::map<std::string, int64_t> parameters = {
      {"gpt2-tiny", 859'008},     {"gpt2-30m", 30'339'456},     {"gpt2-124m", 124'439'808},
      {"gpt2-355m", 354'823'168}, {"gpt2-1.5b", 1'557'611'200}, {"gpt-18b", 18'437'670'912},
      {"llama-tiny", 771'328},    {"llama-100m", 100'092'672},
  };
  for (const std::string& name : PresetNames()) {
    SCOPED_TRACE(name);
    ASSERT_OK_AND_ASSIGN(ModelConfig config, PresetConfig(name));
    ASSERT_TRUE(parameters.contains(name));
    EXPECT_EQ(ParameterCount(config), parameters.at(name));
    EXPECT_EQ(config.attention_dropout + config.embedding_dropout + config.residual_dropout, 0);
  }
  EXPECT_EQ(PresetNames().size(), parameters.size());
}

TEST(Presets, RawIsTheConfigItself) {
  for (const std::string& name : PresetNames()) {
    SCOPED_TRACE(name);
    ASSERT_OK_AND_ASSIGN(ModelConfig config, PresetConfig(name));
    ASSERT_OK_AND_ASSIGN(ModelConfig again, ReadModelConfig(config.raw, "raw"));
    EXPECT_EQ(ToHuggingFaceConfig(again).value(), config.raw);
  }
}

TEST(Presets, UnknownNamesGetAHint) {
  EXPECT_THAT(PresetConfig("gpt2-125m"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("(did you mean gpt2-124m?)")));
}

}  // namespace
}  // namespace colossus
