#include "trainers/lib/answer/generate.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "shardformer/config.h"
#include "shardformer/export.h"
#include "shardformer/initialize.h"
#include "shardformer/model.h"
#include "shardformer/tokenizer/bytes.h"
#include "tensor/io/json.h"
#include "trainers/lib/checkpoint/checkpoint.h"
#include "trainers/lib/checkpoint/write.h"
#include "trainers/lib/config/config.h"
#include "trainers/lib/config/log.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;
constexpr char kGoldens[] = "tests/golden/";

struct Outcome {
  absl::StatusOr<Generation> result = absl::UnknownError("not run");
  std::string printed;
  bool begun = false;
};

Outcome RunWith(const std::vector<std::string>& arguments) {
  Outcome run;
  absl::StatusOr<Config> config = ReadConfig(Trainer::kGenerate, arguments, RealFileSystem());
  if (!config.ok()) {
    run.result = config.status();
    return run;
  }
  Log log(nullptr, false);
  JobContext context{*config, log};
  run.result = Generate(RealFileSystem(), context, [&](absl::string_view part) {
    absl::StrAppend(&run.printed, part);
  });
  run.begun = context.begun;
  return run;
}

Outcome RunOn(const std::string& directory, std::vector<std::string> arguments) {
  arguments.push_back(absl::StrCat("--model=", directory));
  arguments.push_back("--threads=1");
  return RunWith(arguments);
}

// A small model of random weights whose ids are bytes; some of its 300 ids are no text.
ModelConfig BytesConfig() {
  absl::StatusOr<ModelConfig> config = ReadModelConfig(
      nlohmann::json{{"model_type", "gpt2"}, {"vocab_size", 300}, {"n_positions", 48},
                     {"n_embd", 16}, {"n_layer", 1}, {"n_head", 2}, {"initializer_range", 0.5},
                     {"bos_token_id", 256}, {"eos_token_id", 256}},
      "config");
  EXPECT_OK(config.status());
  return *config;
}

// Its directory as a run exports it.
std::string BytesModel(bool with_tokenizer) {
  const std::string path =
      JoinPath(::testing::TempDir(), with_tokenizer ? "bytes" : "bytes_without_tokenizer");
  FileSystem& files = RealFileSystem();
  absl::StatusOr<std::vector<StateInfo>> parameters = ModelParameters(BytesConfig());
  EXPECT_OK(parameters.status());
  EXPECT_OK(ExportModel(files, path, BytesConfig(), *parameters, DType::kF32,
                        [](const StateInfo& info) -> absl::StatusOr<HostTensor> {
                          return InitialValue(info, DType::kF32, /*seed=*/1);
                        }));
  if (with_tokenizer) {
    EXPECT_OK(files.WriteFileAtomically(JoinPath(path, "tokenizer.json"),
                                        BytesTokenizer().TokenizerJson()));
  }
  return path;
}

// The same model as a checkpoint of a run.
std::string BytesCheckpoint() {
  const std::string out = JoinPath(::testing::TempDir(), "bytes_run");
  CheckpointRecord record;
  record.counters.attempted = 1;
  record.model = ToHuggingFaceConfig(BytesConfig())->dump();
  std::vector<HostTensor> values;
  absl::StatusOr<std::vector<StateInfo>> parameters = ModelParameters(BytesConfig());
  EXPECT_OK(parameters.status());
  for (const StateInfo& info : *parameters) {
    const HostTensor value = InitialValue(info, DType::kF32, /*seed=*/1);
    record.states.push_back({info.name, std::string(Name(info.role)), value.type()});
    values.push_back(value);
  }
  EXPECT_OK(WriteCheckpoint(
      RealFileSystem(), JoinPath(out, "checkpoints"), record, WholePieces(record.states),
      [&](size_t piece, int64_t offset, void* dst, int64_t bytes) {
        std::memcpy(dst, static_cast<const char*>(values[piece].raw()) + offset, bytes);
        return absl::OkStatus();
      }));
  return out;
}

TEST(Generate, GreedyEqualsTheGoldens) {
  for (const char* name : {"gpt2_inner", "gpt2_untied", "llama_llama3_bias", "llama_yarn",
                           "llama_tied", "mistral_window", "qwen2_layers", "llama_shards"}) {
    const std::string directory = absl::StrCat(kGoldens, name);
    ASSERT_OK_AND_ASSIGN(const nlohmann::json golden,
                         ReadJsonFile(RealFileSystem(), directory + "/golden.json"));
    const std::vector<int32_t> prompt = golden["greedy"]["prompt"], ids = golden["greedy"]["ids"];
    std::vector<std::string> arguments = {
        absl::StrCat("--prompt_ids=", absl::StrJoin(prompt, ",")), "--temperature=0",
        absl::StrCat("--max_new_tokens=", ids.size())};
    const std::vector<std::string> capped = {"--device=capped", "--device_memory=64MiB"};
    const std::vector<std::string> on_host = {"--placement=cpu"};  // parameters and caches
    for (const auto& more : {std::vector<std::string>(), capped, on_host}) {
      arguments.insert(arguments.end(), more.begin(), more.end());
      const Outcome run = RunOn(directory, arguments);
      ASSERT_OK(run.result.status()) << name;
      EXPECT_EQ(run.result->ids, ids) << name;
      EXPECT_EQ(run.result->text, std::nullopt) << name;
      EXPECT_EQ(run.printed, absl::StrJoin(ids, ",")) << name;
      EXPECT_TRUE(run.begun);
    }
  }
}

// The default of 64 ids is more than there is room for.
TEST(Generate, EndsAtTheLastPosition) {
  const Outcome run = RunOn(BytesModel(true), {absl::StrCat("--prompt=", std::string(44, 'a')),
                                               "--temperature=0"});
  ASSERT_OK(run.result.status());
  EXPECT_GE(run.result->ids.size(), 1u);
  EXPECT_LE(run.result->ids.size(), 4u);
}

TEST(Generate, TextIsWhatIsPrinted) {
  const std::string model = BytesModel(true);
  const Outcome run = RunOn(model, {"--prompt=na\xC3\xAFve", "--max_new_tokens=40", "--seed=4"});
  ASSERT_OK(run.result.status());
  ASSERT_TRUE(run.result->text.has_value());
  EXPECT_EQ(run.printed, *run.result->text);
  EXPECT_EQ(BytesTokenizer().Decode(run.result->ids, SpecialTokens::kSkip), run.printed);
  for (int32_t id : run.result->ids) EXPECT_LE(id, BytesTokenizer::kEnd);

  // The same seed gives the same, whether the prompt comes as text or as ids.
  const Outcome ids = RunOn(model, {"--prompt_ids=110,97,195,175,118,101", "--max_new_tokens=40",
                                "--seed=4"});
  ASSERT_OK(ids.result.status());
  EXPECT_EQ(ids.result->ids, run.result->ids);
  const Outcome other = RunOn(model, {"--prompt=na\xC3\xAFve", "--max_new_tokens=40", "--seed=5"});
  ASSERT_OK(other.result.status());
  EXPECT_NE(other.result->ids, run.result->ids);
}

TEST(Generate, AnEmptyPromptStartsBehindAnEnd) {
  const std::string model = BytesModel(true);
  const Outcome empty = RunOn(model, {"--temperature=0", "--max_new_tokens=8"});
  const Outcome end = RunOn(model, {"--temperature=0", "--max_new_tokens=8", "--prompt_ids=256"});
  ASSERT_OK(empty.result.status());
  ASSERT_OK(end.result.status());
  EXPECT_EQ(empty.result->ids, end.result->ids);
}

TEST(Generate, ReadsACheckpointLikeADirectory) {
  const std::string out = BytesCheckpoint();
  const std::vector<std::string> arguments = {"--prompt=a", "--max_new_tokens=20", "--seed=4"};
  const Outcome directory = RunOn(BytesModel(true), arguments);
  ASSERT_OK(directory.result.status());
  for (const std::string& path : {out, JoinPath(out, "checkpoints/step-1")}) {
    const Outcome checkpoint = RunOn(path, arguments);
    ASSERT_OK(checkpoint.result.status()) << path;
    EXPECT_EQ(checkpoint.result->ids, directory.result->ids) << path;
    EXPECT_EQ(checkpoint.printed, directory.printed) << path;
  }
}

TEST(Generate, StopsBehindTheEndToken) {
  // At this temperature all 80-odd ids are about as likely.
  bool stopped = false;
  for (int seed = 0; seed < 40 && !stopped; ++seed) {
    const Outcome drawn =
        RunOn(absl::StrCat(kGoldens, "llama_tied"),
              {"--prompt_ids=5", "--temperature=1000", "--max_new_tokens=30",
               absl::StrCat("--seed=", seed)});
    ASSERT_OK(drawn.result.status());
    const std::vector<int32_t>& ids = drawn.result->ids;
    for (size_t i = 0; i + 1 < ids.size(); ++i) EXPECT_NE(ids[i], 2);
    stopped = ids.size() < 30;
    EXPECT_TRUE(!stopped || ids.back() == 2) << absl::StrJoin(ids, ",");
  }
  EXPECT_TRUE(stopped);
}

TEST(Generate, RefusesBeforeAnythingRuns) {
  const std::string golden = absl::StrCat(kGoldens, "gpt2_inner");
  ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                       LoadModelConfig(RealFileSystem(), golden + "/config.json"));
  const int64_t positions = config.max_positions;
  const struct {
    std::string model;
    std::vector<std::string> arguments;
    const char* message;
  } cases[] = {
      {golden, {"--prompt=hello"}, "no tokenizer.json; give --prompt_ids"},
      {golden, {"--prompt=hello", "--tokenizer=bytes"}, "the tokenizer has 257 ids"},
      {golden, {"--prompt_ids=1", "--tokenizer=nowhere"}, "data.tokenizer is \"nowhere\""},
      {golden, {absl::StrCat("--prompt_ids=", config.vocabulary)}, "outside of the vocabulary"},
      {golden, {"--prompt_ids=4294967296"}, "outside of the vocabulary"},
      {golden, {"--prompt_ids=1,2", absl::StrCat("--max_new_tokens=", positions)}, "or less"},
      {BytesModel(true), {absl::StrCat("--prompt=", std::string(48, 'a'))}, "at most 47"},
      {BytesModel(true), {"--max_new_tokens=48"}, "use --max_new_tokens=47 or less"},
      {BytesModel(false), {"--prompt=a"}, "no tokenizer.json"},
      {"nowhere", {"--prompt_ids=1"}, "nowhere"},
  };
  for (const auto& c : cases) {
    const Outcome run = RunOn(c.model, c.arguments);
    EXPECT_THAT(run.result.status(), StatusIs(::testing::_, HasSubstr(c.message)));
    EXPECT_FALSE(run.begun) << c.message;
    EXPECT_EQ(run.printed, "");
  }
}

TEST(Generate, ReadsBytesWithoutATokenizerFileWhenAskedTo) {
  const Outcome run = RunOn(BytesModel(false),
                        {"--prompt=a", "--tokenizer=bytes", "--max_new_tokens=4"});
  ASSERT_OK(run.result.status());
  EXPECT_TRUE(run.result->text.has_value());
}

TEST(Generate, ReadsBytesWhateverTheTokenizerFileWhenAskedTo) {
  const std::string model = BytesModel(true);
  ASSERT_OK(RealFileSystem().WriteFileAtomically(JoinPath(model, "tokenizer.json"), "{}"));
  EXPECT_THAT(RunOn(model, {"--prompt=a"}).result.status(),
              StatusIs(::testing::_, HasSubstr("--prompt cannot become ids")));
  const Outcome run = RunOn(model, {"--prompt=a", "--tokenizer=bytes", "--max_new_tokens=4"});
  ASSERT_OK(run.result.status());
  EXPECT_TRUE(run.result->text.has_value());
}

TEST(GenerationJson, IsValidWhateverTheBytes) {
  EXPECT_EQ(GenerationJson({{1, 2}, std::nullopt}), R"({"ids":[1,2],"text":null})");
  EXPECT_EQ(GenerationJson({{}, "a\"\xC3\xA9"}), "{\"ids\":[],\"text\":\"a\\\"\xC3\xA9\"}");
  EXPECT_EQ(GenerationJson({{7}, "\xFFz"}), "{\"ids\":[7],\"text\":\"\xEF\xBF\xBDz\"}");
}

}  // namespace
}  // namespace colossus
