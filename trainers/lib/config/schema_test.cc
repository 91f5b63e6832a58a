#include "trainers/lib/config/schema.h"

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/schedule_list.h"
#include "shardformer/presets.h"
#include "trainers/lib/config/options.h"
#include "trainers/lib/config/presets.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

TEST(SchemaTest, RowsAreComplete) {
  std::set<std::string> names, flags;
  for (const Key& key : Keys()) {
    SCOPED_TRACE(key.name);
    EXPECT_TRUE(names.insert(key.name).second) << "twice";
    EXPECT_TRUE(key.flag[0] == '\0' || flags.insert(key.flag).second) << "twice";
    EXPECT_NE(key.trainers, 0u);
    EXPECT_NE(key.text[0], '\0');
    EXPECT_NE(key.changes[0], '\0');
    EXPECT_NE(TypeText(key), "");
  }
  EXPECT_EQ(flags.count("set") + flags.count("config") + flags.count("help"), 0u);
}

// Defaults are inside their own ranges, and a condition names keys that exist (a typo CHECK-fails).
TEST(SchemaTest, DefaultsPassAndConditionsParse) {
  const Options options;
  for (const Key& key : Keys()) {
    EXPECT_OK(CheckRange(key, options)) << key.name;
    WhyNotApplied(key, options);
  }
}

TEST(SchemaTest, ValueTextsRoundTrip) {
  for (const Key& key : Keys()) {
    const Options options;
    Options again;
    ASSERT_OK(SetFromText(key, ValueText(key, options), &again)) << key.name;
    EXPECT_EQ(ValueText(key, again), ValueText(key, options)) << key.name;
  }
}

// The table is text, so it cannot ask the model library.
TEST(SchemaTest, EveryPresetCanBeChosen) {
  EXPECT_EQ(FindKey("model.preset")->choices, absl::StrJoin(PresetNames(), "|"));
}

TEST(SchemaTest, EveryScheduleCanBeChosen) {
  std::vector<absl::string_view> names;
  for (const Schedule& schedule : AllSchedules()) names.push_back(schedule.name);
  EXPECT_EQ(FindKey("plan.schedule")->choices, absl::StrJoin(names, "|"));
}

TEST(SchemaTest, PresetValuesAreValid) {
  for (const std::string& preset : PresetNames()) {
    EXPECT_FALSE(PresetValues(preset).empty()) << preset;
    for (const PresetValue& value : PresetValues(preset)) {
      const Key* key = FindKey(value.key);
      ASSERT_NE(key, nullptr) << value.key;
      Options options;
      EXPECT_OK(SetFromText(*key, value.text, &options)) << value.key;
    }
  }
  EXPECT_TRUE(PresetValues("none").empty());
}

struct ParseCase {
  const char* key;
  const char* text;
  const char* result;  // the value's text, or a part of the error after "!"
};

TEST(SchemaTest, ParsesByType) {
  const ParseCase cases[] = {
      {"run.steps", "100", "100"},
      {"run.steps", "-1", "!-1 is out of range: it must be at least 0"},
      {"run.steps", "9000000000000000000", "!must be at most 1000000000000000"},
      {"generate.prompt_ids", "1, 2", "1,2"},
      {"generate.prompt_ids", "1,,2", "!is not"},
      {"run.steps", "1.5", "!'1.5' is not an integer"},
      {"run.steps", "99999999999999999999", "!is not an integer"},
      {"run.steps", "", "!is not an integer"},
      {"optimizer.learning_rate", "1e-3", "0.001"},
      {"optimizer.learning_rate", "1", "1.0"},
      {"optimizer.learning_rate", "nan", "!out of range"},
      {"optimizer.learning_rate", "inf", "!out of range"},
      {"optimizer.learning_rate", "fast", "!is not a number"},
      {"optimizer.epsilon", "0", "!above 0"},
      {"schedule.minimum_ratio", "1.5", "!at most 1.0"},
      {"run.json", "true", "true"},
      {"run.json", "1", "!true or false"},
      {"precision.compute", "fp32", "fp32"},
      {"precision.compute", "fp8", "!one of bf16, fp32, fp16"},
      {"generate.prompt_ids", "5,6, 7", "5,6,7"},
      {"generate.prompt_ids", "5,x", "!list of integers"},
      {"generate.prompt_ids", "5,-6", "!at least 0"},
      {"run.device_memory", "6GB", "6GB"},
      {"run.device_memory", "6GiB", "6GiB"},
      {"run.device_memory", "1.5 GiB", "1536MiB"},
      {"run.device_memory", "6000000000", "6GB"},
      {"run.device_memory", "12345", "12345"},
      {"run.device_memory", "much", "!no size in bytes"},
      {"run.device_memory", "1e30GB", "!no size in bytes"},
  };
  for (const ParseCase& c : cases) {
    SCOPED_TRACE(std::string(c.key) + " = " + c.text);
    const Key& key = *FindKey(c.key);
    Options options;
    const std::string before = ValueText(key, options);
    const absl::Status status = SetFromText(key, c.text, &options);
    if (c.result[0] == '!') {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.result + 1)));
      EXPECT_EQ(ValueText(key, options), before);
    } else {
      EXPECT_OK(status);
      EXPECT_EQ(ValueText(key, options), c.result);
    }
  }
}

TEST(SchemaTest, TomlValues) {
  Options options;
  options.generate.prompt = "a \"b\"\\\n";
  options.generate.prompt_ids = {1, 2};
  options.run.device_memory = 6000000000;
  EXPECT_EQ(TomlValue(*FindKey("generate.prompt"), options), R"("a \"b\"\\\u000a")");
  EXPECT_EQ(TomlValue(*FindKey("generate.prompt_ids"), options), "[1,2]");
  EXPECT_EQ(TomlValue(*FindKey("run.device_memory"), options), "\"6GB\"");
  EXPECT_EQ(TomlValue(*FindKey("generate.temperature"), options), "1.0");
}

TEST(SchemaTest, NearestNames) {
  EXPECT_EQ(NearestKey("optimizer", "learing_rate"), "did you mean learning_rate in [optimizer]?");
  EXPECT_EQ(NearestKey("run", "learning_rate"), "it belongs to [optimizer]");
  EXPECT_EQ(NearestFlag(Trainer::kPretrain, "learning-rate"), "did you mean --learning_rate?");
  // Nothing is near: no guess.
  EXPECT_EQ(NearestFlag(Trainer::kPretrain, "lr"), "--help lists all flags");
  EXPECT_EQ(NearestFlag(Trainer::kPretrain, "batch_size"), "--help lists all flags");
  EXPECT_EQ(NearestKey("optimizer", "lr"), "--help lists all keys");
}

TEST(SchemaTest, ConditionsSayWhy) {
  Options options;
  const Key& momentum = *FindKey("optimizer.momentum");
  EXPECT_FALSE(Applies(momentum, options));
  EXPECT_EQ(WhyNotApplied(momentum, options), "optimizer.name is adamw");
  options.optimizer.name = "sgd";
  EXPECT_TRUE(Applies(momentum, options));
  EXPECT_EQ(WhyNotApplied(*FindKey("run.keep"), options), "run.out is not given");
}

// An axis of one is none.
TEST(SchemaTest, ConditionsOfAxes) {
  const struct {
    const char *key, *mesh, *why;
  } rows[] = {
      {"plan.schedule", "", "plan.mesh is not given, without an axis stage of 2 or more"},
      {"plan.schedule", "stage=1,data=2",
       "plan.mesh is stage=1,data=2, without an axis stage of 2 or more"},
      {"plan.chunks", "stage:data=2",
       "plan.mesh is stage:data=2, without an axis stage of 2 or more"},
      {"plan.borders", "stage=2", ""},
      {"plan.borders", "stage:/stage:", ""},
      {"plan.norms", "data=2,tensor=1",
       "plan.mesh is data=2,tensor=1, without an axis tensor of 2 or more"},
      {"plan.norms", "stage:/stage:tensor=2", ""},
      {"plan.sequence", "stage:tensor=2/stage:sequence=1",
       "plan.mesh is stage:tensor=2/stage:sequence=1, without an axis sequence of 2 or more"},
      {"plan.sequence", "sequence", ""},  // no mesh: for others to refuse
  };
  for (const auto& row : rows) {
    Options options;
    options.plan.mesh = row.mesh;
    EXPECT_EQ(WhyNotApplied(*FindKey(row.key), options), row.why) << row.key << " " << row.mesh;
  }
}

}  // namespace
}  // namespace colossus
