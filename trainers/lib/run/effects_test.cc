// Each key of the schema changes what it says it changes, or is refused: two small runs a row, one
// with and one without the flag.
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "trainers/lib/answer/convert.h"
#include "trainers/lib/answer/evaluate.h"
#include "trainers/lib/config/config.h"
#include "trainers/lib/config/log.h"
#include "trainers/lib/config/main.h"
#include "trainers/lib/config/schema.h"
#include "trainers/lib/testing/tiny_run.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;
// What a run shows.
struct Shown {
  TinyResult result;
  std::string files;  // names below the run's folder
};

std::string Values(const Shown& shown, const std::string& key) {
  std::vector<std::string> values;
  for (const nlohmann::json& line : shown.result.metrics) values.push_back(line.at(key).dump());
  return absl::StrJoin(values, " ");
}

// The log's lines that begin with one of `starts`.
std::string LogLines(const Shown& shown, const Flags& starts) {
  std::string lines;
  for (absl::string_view line : absl::StrSplit(shown.result.log, '\n')) {
    for (const std::string& start : starts) {
      if (absl::StartsWith(line, start)) absl::StrAppend(&lines, line, "\n");
    }
  }
  return lines;
}

// The first observable that Key::changes names, as text.
std::string Observe(const std::string& observable, const Shown& shown) {
  if (observable == "loss" || observable == "first loss") return Values(shown, "loss");
  if (observable == "tokens" || observable == "tokens an update") {
    // A refusal leaves no line; how many targets there are also stands in the log.
    return Values(shown, "tokens") + LogLines(shown, {"data: "});
  }
  if (observable == "lines of the metrics" || observable == "updates an epoch") {
    return absl::StrCat(shown.result.metrics.size());
  }
  if (observable == "shape of the model" || observable == "the model") {
    return LogLines(shown, {"parameters: "});
  }
  if (observable == "first step") {
    return LogLines(shown, {"goes on", "all "}) + shown.result.status.ToString();
  }
  if (observable == "refusal of jobs that do not fit") return shown.result.status.ToString();
  // Seconds differ in any case; what makes them differ stands in the log.
  if (observable == "step_seconds") return LogLines(shown, {"matmul peak: "});
  if (observable == "log") return LogLines(shown, {"profile: ", "ranks: "});
  if (observable == "files") return shown.files;
  return Values(shown, observable);
}

struct Row {
  const char* key;
  Flags before;          // both runs
  Flags changed;         // only the second; a flag that `before` has too replaces it
  bool refused = false;  // the second must be refused: there is no other value
};

bool Given(const Flags& flags, absl::string_view prefix) {
  for (const std::string& flag : flags) {
    if (absl::StartsWith(flag, prefix)) return true;
  }
  return false;
}

class EffectsTest : public ::testing::Test {
 protected:
  EffectsTest() : run_("effects") {
    run_.WriteText(12);
    Write("parts.txt", "abcabcabcabcabc\n%\nabcabcabcabcabcabcabc\n%\nabcabcabcabcabcabc\n");
    Write("lines.jsonl", "{\"text\": \"abcabcabcabcabcabc\"}\n{\"text\": 3\n");
    EXPECT_OK(run_.Train({"--steps=1", "--out=" + run_.Path("trained")}).status);
    MakeUntied();
    EXPECT_OK(RealFileSystem().MakeDirs(run_.Path("heads")));
    Write("heads/config.json",
          absl::StrReplaceAll(*RealFileSystem().ReadFile(run_.Path("model/config.json")),
                              {{"\"n_head\":2", "\"n_head\":4"}}));
    EXPECT_OK(RealFileSystem().MakeDirs(run_.Path("other")));
    Write("other/config.json",
          absl::StrReplaceAll(*RealFileSystem().ReadFile(run_.Path("model/config.json")),
                              {{"\"n_layer\":1", "\"n_layer\":2"}}));
    EXPECT_OK(RealFileSystem().MakeDirs(run_.Path("wide")));
    Write("wide/config.json",
          absl::StrReplaceAll(
              *RealFileSystem().ReadFile(run_.Path("model/config.json")),
              {{"\"n_layer\":1", "\"n_layer\":3"}, {"\"n_embd\":16", "\"n_embd\":64"}}));
  }

  // A model whose config ties what its weights hold twice, differently.
  void MakeUntied() {
    const std::string tied = *RealFileSystem().ReadFile(run_.Path("model/config.json"));
    run_.WriteModel({{"tie_word_embeddings", false}});
    EXPECT_OK(run_.Train({"--steps=1", "--out=" + run_.Path("untied")}).status);
    Write("untied/model/config.json", tied);
    Write("model/config.json", tied);
  }

  void Write(const std::string& name, const std::string& text) {
    EXPECT_OK(RealFileSystem().WriteFileAtomically(run_.Path(name), text));
  }

  // Of a row, where @ stands for the test's folder, with what every run gets.
  Flags FlagsOf(const Row& row, bool changed) {
    Flags flags = row.before;
    if (changed) {
      for (const std::string& flag : row.changed) {
        const std::string prefix = flag.substr(0, flag.find('=') + 1);
        std::erase_if(flags, [&](const std::string& f) { return absl::StartsWith(f, prefix); });
        flags.push_back(flag);
      }
    }
    if (!Given(flags, "--steps=") && !Given(flags, "--epochs=")) flags.push_back("--steps=3");
    if (!Given(flags, "--global_batch=") && !Given(flags, "--micro_batch=")) {
      flags.push_back("--global_batch=2");
    }
    if (!Given(flags, "--metrics=")) flags.push_back("--metrics=@metrics.jsonl");
    for (std::string& flag : flags) flag = absl::StrReplaceAll(flag, {{"@", run_.Path("")}});
    return flags;
  }

  Shown Run(const Row& row, bool changed) {
    EXPECT_OK(RealFileSystem().RemoveTree(run_.Path("run")));
    EXPECT_OK(RealFileSystem().MakeDirs(run_.Path("run")));
    EXPECT_OK(RealFileSystem().RemoveTree(run_.Path("metrics.jsonl")));
    Shown shown;
    shown.result = run_.Train(FlagsOf(row, changed));
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(run_.Path("run"))) {
      names.insert(entry.path().string());
    }
    shown.files = absl::StrJoin(names, "\n");
    return shown;
  }

  TinyRun run_;
};

// Where a run computes, what it keeps and shows.
std::vector<Row> RunRows() {
  return {
      {"run.steps", {}, {"--steps=2"}},
      {"run.epochs", {"--epochs=1"}, {"--epochs=2"}},
      {"run.seed", {}, {"--seed=5"}},
      {"run.ranks", {}, {"--ranks=2"}},
      {"run.threads", {}, {"--threads=2"}},
      {"run.stall_seconds", {"--ranks=2"}, {"--stall_seconds=60"}},
      {"run.out", {}, {"--out=@run/out"}},
      {"run.metrics", {}, {"--metrics=@run/metrics.jsonl"}},
      {"run.validate_every", {"--validation_share=0.2"}, {"--validate_every=1"}},
      {"run.save_every", {"--out=@run/out"}, {"--save_every=2"}},
      {"run.keep", {"--out=@run/out", "--save_every=1"}, {"--keep=3"}},
      {"run.resume", {"--out=@trained", "--steps=1", "--global_batch=8"}, {"--resume=never"}},
      {"run.skip_nonfinite", {"--optimizer=sgd", "--learning_rate=1e30"}, {"--skip_nonfinite=2"}},
      {"run.device", {}, {"--device=null"}},
      {"run.device_memory", {"--device=capped", "--device_memory=1GB"}, {"--device_memory=20000"}},
      {"run.dump_graphs", {}, {"--dump_graphs=@run/graphs"}},
      {"run.profile", {}, {"--profile"}},
      {"run.profile_file", {"--profile"}, {"--profile_file=@run/profile.json"}},
  };
}

// What lies below the device.
std::vector<Row> TierRows() {
  const Flags capped = {"--device=capped", "--device_memory=1GB"};
  // The disk's own buffers and 1.2 MB.
  const Flags on_disk = {"--device=capped",           "--device_memory=1GB", "--placement=cpu",
                         "--host_memory=34754432",    "--model=@wide",       "--initialize=random",
                         "--offload_dir=@run/offload"};
  const Flags predicted = {"--device=null", "--placement=cpu", "--model=@wide",
                           "--initialize=random"};
  return {
      {"plan.placement", capped, {"--placement=cpu"}},
      {"run.host_memory", on_disk, {"--host_memory=1GB"}},
      {"run.offload_dir",
       {"--device=capped", "--device_memory=1GB", "--placement=cpu", "--host_memory=1200000",
        "--model=@wide", "--initialize=random"},
       {"--host_memory=34754432", "--offload_dir=@run/offload"}},
      {"run.disk_memory",
       {"--device=null", "--placement=cpu", "--host_memory=34754432", "--model=@wide",
        "--initialize=random"},
       {"--disk=1GB"}},
      {"run.link_gbps", predicted, {"--link_gbps=0.001"}},
      {"run.device_tflops", predicted, {"--device_tflops=0.0001"}},
      {"run.device_gbps", predicted, {"--device_gbps=0.01"}},
      {"run.host_gbps", predicted, {"--host_gbps=0.01"}},
  };
}

// A key that other trainers take too means the same there.
std::vector<Row> JobRows() {
  const Flags fp16 = {"--precision=fp16"};
  const Flags heads = {"--model=@heads", "--initialize=random", "--mesh=tensor=4"};
  const Flags overflowing = {"--precision=fp16", "--loss_scale=1099511627776"};  // 2^40
  return {
      {"model.preset", {"--device=null", "--steps=1"}, {"--preset=gpt2-tiny"}},
      {"model.directory", {}, {"--model=@other", "--initialize=random"}},
      {"model.initialize", {"--model=@trained/model"}, {"--initialize=random"}},
      {"model.require_tied", {"--model=@untied/model"}, {"--require_tied=true"}, true},
      {"model.dropout", {}, {"--dropout=0.3"}},
      {"model.freeze", {}, {"--freeze=*.h.0.*"}},
      {"data.file", {}, {"--data=@parts.txt"}},
      {"data.format", {"--data=@parts.txt"}, {"--data_format=fortune"}},
      {"data.tokenizer", {}, {"--tokenizer=words"}, true},
      {"data.sequence_length", {}, {"--sequence_length=4"}},
      {"data.order", {}, {"--data_order=sequential"}},
      {"data.packing", {"--data=@parts.txt", "--data_format=fortune"}, {"--packing=borders"}},
      {"data.tail", {"--epochs=1", "--global_batch=5"}, {"--tail=drop"}},
      {"data.jsonl_mode", {"--data=@lines.jsonl", "--global_batch=1"}, {"--jsonl_mode=lenient"}},
      {"data.validation_file", {}, {"--validation_data=@parts.txt"}},
      {"data.validation_share", {}, {"--validation_share=0.2"}},
      {"batch.micro_batch", {"--global_batch=8"}, {"--micro_batch=1"}},
      {"batch.global_batch", {"--micro_batch=1"}, {"--global_batch=3"}},
      {"precision.compute", {}, {"--precision=bf16"}},
      {"precision.gradient", {"--precision=bf16"}, {"--gradient_precision=fp32"}},
      {"precision.loss_scale", fp16, {"--loss_scale=1024"}},
      {"precision.loss_scale_factor",
       {"--precision=fp16", "--loss_scale_growth_interval=1"},
       {"--loss_scale_factor=4"}},
      {"precision.loss_scale_growth_interval", fp16, {"--loss_scale_growth_interval=1"}},
      {"precision.loss_scale_hysteresis", overflowing, {"--loss_scale_hysteresis=3"}},
      {"precision.loss_scale_minimum", overflowing, {"--loss_scale_minimum=1099511627776"}},
      {"optimizer.name", {}, {"--optimizer=sgd"}},
      {"optimizer.learning_rate", {}, {"--learning_rate=0.02"}},
      {"optimizer.beta1", {}, {"--beta1=0.5"}},
      {"optimizer.beta2", {}, {"--beta2=0.5"}},
      {"optimizer.epsilon", {}, {"--epsilon=0.1"}},
      {"optimizer.momentum", {"--optimizer=sgd"}, {"--momentum=0.1"}},
      {"optimizer.weight_decay", {}, {"--weight_decay=0.5"}},
      {"optimizer.clip_norm", {"--optimizer=sgd"}, {"--clip_norm=0.01"}},
      {"optimizer.state", {}, {"--optimizer_state=bf16"}},
      {"plan.accumulation_order",
       {"--micro_batch=1", "--global_batch=8"},
       {"--accumulation_order=vertical"}},
      {"plan.update", {"--clip_norm=0"}, {"--update=layerwise"}},
      {"schedule.kind", {}, {"--schedule=linear"}},
      {"schedule.warmup_steps", {}, {"--warmup_steps=2"}},
      {"schedule.minimum_ratio", {}, {"--minimum_ratio=0.5"}},
      {"plan.mesh", {}, {"--mesh=data=2"}},
      {"plan.zero", {"--ranks=2"}, {"--zero=3"}},
      {"plan.chunk_elements", {"--ranks=2", "--zero=3"}, {"--chunk_elements=1000"}},
      {"plan.overrides", {"--mesh=tensor=2"}, {"--overrides=*.c_fc.weight="}},
      {"plan.sequence", {"--mesh=sequence=2"}, {"--sequence=all_to_all"}},
      {"plan.tensor_layout", heads, {"--tensor_layout=2d"}},
      {"plan.norms", heads, {"--norms=replicated"}},
      {"plan.recompute",
       {"--micro_batch=16", "--model=@other", "--initialize=random"},
       {"--recompute=block"}},
      {"plan.recompute_budget",
       {"--micro_batch=16", "--model=@other", "--initialize=random", "--recompute=optimal"},
       {"--recompute_budget=128KiB"}},
  };
}

// Pipelines.
std::vector<Row> StageRows() {
  const Flags four = {"--mesh=stage=2", "--micro_batch=1", "--micro_batches=4"};
  return {
      {"batch.micro_batches", {"--micro_batch=1"}, {"--micro_batches=3"}},
      {"plan.schedule", four, {"--schedule=gpipe"}},
      {"plan.chunks",
       {"--model=@other", "--initialize=random", "--mesh=stage=2", "--micro_batch=1",
        "--micro_batches=2", "--schedule=looped"},
       {"--chunks=1"}},
      {"plan.borders", four, {"--borders=head"}},
  };
}

std::vector<Row> PretrainRows() {
  std::vector<Row> rows = JobRows();
  for (const std::vector<Row>& more : {TierRows(), RunRows(), StageRows()}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

TEST_F(EffectsTest, EveryKeyOfPretrain) {
  std::set<std::string> seen;
  for (const Row& row : PretrainRows()) {
    SCOPED_TRACE(row.key);
    EXPECT_TRUE(seen.insert(row.key).second);
    const Key* key = FindKey(row.key);
    ASSERT_NE(key, nullptr);
    ASSERT_TRUE(key->TakenBy(Trainer::kPretrain));
    const Shown before = Run(row, false);
    const Shown after = Run(row, true);
    if (row.refused) {
      EXPECT_THAT(after.result.status,
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(row.key)));
      continue;
    }
    const std::vector<std::string> observables = absl::StrSplit(key->changes, ", ");
    EXPECT_NE(Observe(observables[0], before), Observe(observables[0], after)) << observables[0];
    // One of the two may be what the key makes a refusal, never both.
    EXPECT_TRUE(before.result.status.ok() || after.result.status.ok())
        << before.result.status << " and " << after.result.status;
  }
  for (const Key& key : Keys()) {
    if (key.TakenBy(Trainer::kPretrain)) {
      EXPECT_TRUE(seen.contains(key.name)) << key.name << " has no row";
    }
  }
}

// Evaluate and convert take no key of their own but run.json; what they print and write.
TEST_F(EffectsTest, EvaluateAndConvert) {
  const auto evaluate = [&](const Flags& more) {
    Flags flags = {"--model=" + run_.Path("trained"), "--data=" + run_.Path("text.txt"),
                   "--sequence_length=8", "--threads=1"};
    flags.insert(flags.end(), more.begin(), more.end());
    const absl::StatusOr<Config> config = ReadConfig(Trainer::kEvaluate, flags, RealFileSystem());
    EXPECT_OK(config);
    Log log(nullptr, false);
    JobContext context{*config, log};
    ::testing::internal::CaptureStdout();
    const absl::StatusOr<int> exit_code = RunEvaluate(context);
    const std::string output = ::testing::internal::GetCapturedStdout();
    EXPECT_THAT(exit_code, IsOkAndHolds(0));
    return output;
  };
  const nlohmann::json json = nlohmann::json::parse(evaluate({"--json"}));
  const double loss = json.at("loss").get<double>();
  EXPECT_GT(loss, 0);
  EXPECT_NEAR(json.at("perplexity").get<double>(), std::exp(loss), 1e-9 * std::exp(loss));
  EXPECT_GT(json.at("bits_per_byte").get<double>(), 0);
  EXPECT_EQ(json.at("tokens").get<int64_t>(), 12 * kTinyRowTokens);
  EXPECT_NE(evaluate({}), evaluate({"--json"}));
  EXPECT_NE(evaluate({"--json"}), evaluate({"--json", "--precision=bf16"}));
  // Parameters that live on the host give the same digits.
  EXPECT_EQ(evaluate({"--json"}), evaluate({"--json", "--device=capped", "--device_memory=1GB",
                                            "--placement=cpu"}));

  // The checkpoint, converted, is the model that the run exported.
  const std::string converted = run_.Path("converted");
  const absl::StatusOr<Config> config =
      ReadConfig(Trainer::kConvert,
                 Flags{"--model=" + run_.Path("trained/checkpoints/step-1"), "--out=" + converted},
                 RealFileSystem());
  ASSERT_OK(config);
  Log log(nullptr, false);
  JobContext context{*config, log};
  ASSERT_OK(Convert(RealFileSystem(), context));
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json",
                           "tokenizer_config.json", "generation_config.json"}) {
    const auto bytes = RealFileSystem().ReadFile(JoinPath(converted, name));
    ASSERT_OK(bytes);
    EXPECT_THAT(RealFileSystem().ReadFile(JoinPath(run_.Path("trained/model"), name)),
                IsOkAndHolds(*bytes));
  }
}

}  // namespace
}  // namespace colossus
