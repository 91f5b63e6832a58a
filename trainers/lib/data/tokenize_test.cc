#include "trainers/lib/data/tokenize.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "shardformer/tokenizer/testing/small_tokenizer.h"
#include "trainers/lib/config/config.h"
#include "trainers/lib/config/log.h"
#include "trainers/lib/config/main.h"
#include "trainers/lib/config/schema.h"
#include "trainers/lib/data/token_store.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

std::string Write(const std::string& name, const std::string& text) {
  const std::string path = JoinPath(testing::TempDir(), name);
  EXPECT_OK(RealFileSystem().WriteFileAtomically(path, text));
  return path;
}

// The small tokenizer with <|s|> (261) before each text.
std::string TokenizerPath() {
  nlohmann::json json = SmallTokenizerJson();
  json["added_tokens"].push_back(AddedTokenJson(261, "<|s|>"));
  json["added_tokens"][1]["special"] = true;
  json["post_processor"] = {{"type", "RobertaProcessing"}, {"cls", {"<|s|>", 261}},
                            {"sep", {"<|endoftext|>", 260}}};
  return Write("small_tokenizer.json", json.dump());
}

struct Outcome {
  absl::Status status;
  std::string printed;
  bool begun = false;
};

Outcome RunOn(std::vector<std::string> flags, const std::string& input) {
  Outcome outcome;
  absl::StatusOr<Config> config = ReadConfig(Trainer::kTokenize, flags, RealFileSystem());
  outcome.status = config.status();
  if (!config.ok()) return outcome;
  Log log(nullptr, false);
  JobContext context{*config, log};
  std::FILE* in = std::fopen(Write("input", input).c_str(), "r");
  outcome.status = Tokenize(RealFileSystem(), context, in, [&](absl::string_view line) {
    absl::StrAppend(&outcome.printed, line);
    return absl::OkStatus();
  });
  std::fclose(in);
  outcome.begun = context.begun;
  return outcome;
}

TEST(TokenizeTest, OneLineALineInPureAscii) {
  const Outcome run = RunOn({"--tokenizer=" + TokenizerPath()},
                          "\xEF\xBB\xBF{\"text\": \" user\"}\n{\"text\": \"\"}\r\n"
                          "{\"n\": [1], \"text\": \"\\u0000\u00FC\\ud83d\\ude00<|s|>\"}");
  ASSERT_OK(run.status);
  EXPECT_EQ(run.printed,
            "{\"ids\":[261,259,260],\"decoded\":\" user\"}\n"
            "{\"ids\":[261,260],\"decoded\":\"\"}\n"
            "{\"ids\":[261,0,195,188,240,159,152,128,261,260],"
            "\"decoded\":\"\\u0000\\u00fc\\ud83d\\ude00\"}\n");
  EXPECT_FALSE(run.begun);
}

TEST(TokenizeTest, BadLinesAreNamed) {
  const std::string good = "{\"text\": \"a\"}\n";
  const struct {
    std::string input;
    const char* message;
  } cases[] = {
      {good + "{\"txt\": \"a\"}\n", "standard input:2: the object has no text"},
      {good + good + "{\"text\": 5}\n", "standard input:3: the object has no text"},
      {good + "\n" + good, "standard input:2: not one JSON object"},
      {"nothing", "standard input:1: not one JSON object"},
      {good + "{\"text\": \"\\ud800\"}", "standard input:2"},
  };
  for (const auto& c : cases) {
    const Outcome run = RunOn({"--tokenizer=" + TokenizerPath()}, c.input);
    EXPECT_THAT(run.status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
    EXPECT_FALSE(run.begun) << "exit status 2";
  }
}

TEST(TokenizeTest, DocumentsOfFiles) {
  const std::string data = Write("two.txt", "user\n%\nus\n");
  const Outcome run = RunOn({"--tokenizer=bytes", "--data=" + data, "--data_format=fortune"}, "");
  ASSERT_OK(run.status);
  EXPECT_EQ(run.printed,
            "{\"ids\":[117,115,101,114,10],\"decoded\":\"user\\n\"}\n"
            "{\"ids\":[117,115,10],\"decoded\":\"us\\n\"}\n");
  const std::string lines = Write("three.jsonl", "{\"text\": \"a\"}\n{\n{\"text\": \"b\"}\n");
  EXPECT_THAT(RunOn({"--tokenizer=bytes", "--data=" + lines}, "").status,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("three.jsonl:2")));
  EXPECT_EQ(RunOn({"--tokenizer=bytes", "--data=" + lines, "--jsonl_mode=lenient"}, "").printed,
            "{\"ids\":[97],\"decoded\":\"a\"}\n{\"ids\":[98],\"decoded\":\"b\"}\n");
}

TEST(TokenizeTest, TokenFilesHaveTheEndTokenAndNoFrame) {
  const std::string out = JoinPath(testing::TempDir(), "made.tokens");
  const Outcome run = RunOn({"--tokenizer=" + TokenizerPath(), "--out=" + out},
                          "{\"text\": \"user\"}\n{\"text\": \"\"}\n{\"text\": \"us\"}\n");
  ASSERT_OK(run.status);
  EXPECT_EQ(run.printed, "");
  ASSERT_OK_AND_ASSIGN(const TokenStore store, MapTokenFile(RealFileSystem(), out));
  EXPECT_EQ(store.documents(), 2);
  EXPECT_EQ(store.vocabulary(), 262);
  std::vector<int32_t> ids(static_cast<size_t>(store.size()));
  store.Copy(0, absl::MakeSpan(ids));
  EXPECT_EQ(ids, std::vector<int32_t>({258, 260, 256, 260}));
}

TEST(TokenizeTest, Refuses) {
  const struct {
    std::vector<std::string> flags;
    const char* message;
  } cases[] = {
      {{}, "--tokenizer"},
      {{"--tokenizer=nowhere.json"}, "data.tokenizer is \"nowhere.json\""},
      {{"--tokenizer=bytes", "--data=synthetic"}, "synthetic"},
      {{"--tokenizer=bytes", "--jsonl_mode=lenient"}, "data.file"},
      {{"--tokenizer=bytes", "--data=" + Write("x.tokens", "x")}, "has ids already"},
      {{"--tokenizer=bytes", "--out=x.bin"}, "must end in .tokens"},
      {{"--tokenizer=bytes", "--out=/no/such/x.tokens"}, "/no/such/x.tokens"},
      {{"--tokenizer=bytes", "--out=" + Write("other.tokens", "mine")}, "another file"},
      {{"--tokenizer=bytes", "--out=" + JoinPath(testing::TempDir(), "none.tokens")},
       "no document"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(RunOn(c.flags, "").status, StatusIs(::testing::_, HasSubstr(c.message)));
  }
}

}  // namespace
}  // namespace colossus
