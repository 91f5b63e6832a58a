// Every key that only generate or parity takes changes what they answer.
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "trainers/lib/answer/generate.h"
#include "trainers/lib/answer/parity.h"
#include "trainers/lib/config/config.h"
#include "trainers/lib/config/log.h"
#include "trainers/lib/config/main.h"
#include "trainers/lib/config/schema.h"

namespace colossus {
namespace {

using Flags = std::vector<std::string>;

const std::string& Goldens() {
  static const std::string& folder = *new std::string("tests/golden");
  return folder;
}

// What a job prints, and how it ends.
std::string Answer(Trainer trainer, const Flags& flags) {
  const absl::StatusOr<Config> config = ReadConfig(trainer, flags, RealFileSystem());
  if (!config.ok()) return absl::StrCat("refused: ", config.status().ToString());
  Log log(nullptr, false);
  JobContext context{*config, log};
  testing::internal::CaptureStdout();
  const absl::StatusOr<int> code =
      trainer == Trainer::kParity ? RunParity(context) : RunGenerate(context);
  const std::string printed = testing::internal::GetCapturedStdout();
  return absl::StrCat(printed, code.ok() ? absl::StrCat(*code) : code.status().ToString());
}

struct Row {
  const char* key;
  Flags before;   // both
  Flags changed;  // only the second; replaces a flag of `before`
};

Flags Changed(const Row& row) {
  Flags flags = row.before;
  for (const std::string& flag : row.changed) {
    const std::string prefix = flag.substr(0, flag.find('=') + 1);
    std::erase_if(flags, [&](const std::string& f) { return absl::StartsWith(f, prefix); });
    flags.push_back(flag);
  }
  return flags;
}

Flags Generate(Flags more) {
  Flags flags = {absl::StrCat("--model=", Goldens(), "/llama_tied"), "--threads=1", "--json"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

Flags Parity() {
  const std::string folder = absl::StrCat(Goldens(), "/gpt2_inner");
  return {"--model=" + folder, "--golden=" + folder + "/golden.safetensors", "--threads=1"};
}

// The same model with an epsilon that shows.
std::string OtherConfig() {
  const auto text =
      RealFileSystem().ReadFile(absl::StrCat(Goldens(), "/gpt2_inner/config.json"));
  EXPECT_OK(text);
  const std::string path = JoinPath(testing::TempDir(), "other_config.json");
  const std::string changed =
      absl::StrReplaceAll(*text, {{"\"activation_function\": \"gelu", "\"was\": \"gelu"}});
  EXPECT_OK(RealFileSystem().WriteFileAtomically(
      path, absl::StrReplaceAll(changed, {{"{\n", "{\n\"activation_function\": \"relu\",\n"}})));
  return path;
}

std::vector<Row> GenerateRows() {
  const Flags ids = Generate({"--prompt_ids=5,6,7", "--max_new_tokens=4", "--temperature=1"});
  return {
      {"generate.prompt", Generate({"--max_new_tokens=4", "--prompt_ids=1"}),
       {"--prompt=a", "--prompt_ids=1"}},
      {"generate.prompt_ids", ids, {"--prompt_ids=8,9"}},
      {"generate.max_new_tokens", ids, {"--max_new_tokens=6"}},
      {"generate.temperature", ids, {"--temperature=0"}},
      {"generate.top_k", ids, {"--top_k=1"}},
      {"generate.top_p", ids, {"--top_p=0.01"}},
  };
}

std::vector<Row> ParityRows() {
  return {
      {"parity.golden", Parity(),
       {absl::StrCat("--golden=", Goldens(), "/gpt2_untied/golden.safetensors")}},
      {"parity.model_config", Parity(), {"--model_config=" + OtherConfig()}},
      {"parity.tolerance", Parity(), {"--tolerance=0.001"}},
  };
}

void CheckRows(Trainer trainer, const std::vector<Row>& rows, std::set<std::string>& seen) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.key);
    EXPECT_TRUE(seen.insert(row.key).second);
    const std::string before = Answer(trainer, row.before);
    EXPECT_THAT(before, testing::EndsWith("0")) << "the first job is done";
    EXPECT_NE(before, Answer(trainer, Changed(row)));
  }
}

TEST(AnswerEffectsTest, EveryKeyThatPretrainDoesNotTake) {
  // effects_test.cc: evaluate; plan_test.cc
  std::set<std::string> seen = {"run.json", "run.largest"};
  CheckRows(Trainer::kGenerate, GenerateRows(), seen);
  CheckRows(Trainer::kParity, ParityRows(), seen);
  for (const Key& key : Keys()) {
    if (!key.TakenBy(Trainer::kPretrain)) {
      EXPECT_TRUE(seen.contains(key.name)) << key.name << " has no row";
    }
  }
}

}  // namespace
}  // namespace colossus
