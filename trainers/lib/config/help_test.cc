#include "trainers/lib/config/help.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "trainers/lib/config/schema.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(HelpTest, ConfigurationPageIsUpToDate) {
  std::ifstream file("docs/configuration.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(text.str() == ConfigurationPage())
      << "run `bazel run //trainers/lib/config:write_configuration_page`";
}

TEST(HelpTest, EachTrainerListsItsFlagsOnly) {
  for (const Trainer trainer : AllTrainers()) {
    const std::string text = HelpText(trainer);
    for (const Key& key : Keys()) {
      const std::string start = absl::StrCat("\n  --", key.flag, "  (", key.name, ";");
      if (key.TakenBy(trainer)) {
        EXPECT_THAT(text, HasSubstr(start));
      } else {
        EXPECT_THAT(text, Not(HasSubstr(start)));
      }
    }
    const std::vector<std::string> lines = absl::StrSplit(text, '\n');
    for (const std::string& line : lines) EXPECT_LE(line.size(), 120u) << line;
  }
}

TEST(HelpTest, ConditionsOnKeysOfOtherTrainersAreLeftOut) {
  const auto tokenizer = [](Trainer trainer) {
    const std::string text = HelpText(trainer);
    const size_t begin = text.find("  --tokenizer ");
    return text.substr(begin, text.find("\n  --", begin) - begin);
  };
  EXPECT_THAT(tokenizer(Trainer::kPretrain), HasSubstr("synthetic"));
  EXPECT_THAT(tokenizer(Trainer::kGenerate), Not(HasSubstr("synthetic")));
}

TEST(HelpTest, ShowsTheTrainersOwnDefault) {
  EXPECT_THAT(HelpText(Trainer::kParity), HasSubstr("one of bf16, fp32, fp16; default fp32"));
  EXPECT_THAT(HelpText(Trainer::kPretrain), HasSubstr("one of bf16, fp32, fp16; default bf16"));
}

}  // namespace
}  // namespace colossus
