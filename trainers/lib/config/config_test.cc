#include "trainers/lib/config/config.h"

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "trainers/lib/config/config_file.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Arguments = std::vector<std::string>;

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

absl::StatusOr<Config> Read(Arguments arguments, Trainer trainer = Trainer::kPretrain) {
  return ReadConfig(trainer, arguments, RealFileSystem());
}

// Arguments after which only one more mistake is one mistake.
Arguments With(Arguments more) {
  Arguments all = {"--preset=gpt2-tiny", "--data=a.txt"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(ConfigTest, LaterLayersWin) {
  ASSERT_OK_AND_ASSIGN(Config config, Read(With({})));
  EXPECT_EQ(config.options.optimizer.learning_rate, 1e-3) << "from the preset";
  EXPECT_EQ(config.options.optimizer.beta1, 0.9) << "default";
  EXPECT_EQ(config.origins.at("optimizer.learning_rate").place, "preset gpt2-tiny");
  EXPECT_FALSE(config.IsGiven("optimizer.learning_rate"));

  const std::string file =
      WriteFile("layers.toml", "[optimizer]\nlearning_rate = 2e-3\nbeta1 = 0.8\n");
  ASSERT_OK_AND_ASSIGN(config, Read(With({"--config=" + file, "--beta1", "0.7"})));
  EXPECT_EQ(config.options.optimizer.learning_rate, 2e-3) << "the file is above the preset";
  EXPECT_EQ(config.options.optimizer.beta1, 0.7) << "the flag is above the file";
  EXPECT_EQ(config.origins.at("optimizer.learning_rate").place, file + ":2");
  EXPECT_TRUE(config.IsGiven("optimizer.beta1"));
}

// Protects: a training run's flags had to be taken away one by one to plan it.
TEST(ConfigTest, PlanTakesThePretrainKeysAndLeavesOutWhatChangesNothing) {
  const Arguments run = With({"--steps=9", "--out=o", "--device=capped", "--device_memory=1GB",
                              "--set=data.order=sequential", "--packing=borders"});
  auto with = [&](const char* more) {
    Arguments all = run;
    all.push_back(more);
    return Read(all, Trainer::kPlan);
  };
  ASSERT_OK_AND_ASSIGN(const Config plan, with("--schedule=linear"));
  EXPECT_EQ(plan.options.run.steps, 0);
  EXPECT_EQ(plan.options.run.device, "null");
  EXPECT_EQ(plan.options.run.device_memory, 1000000000);
  EXPECT_EQ(plan.options.data.packing, "borders");
  EXPECT_FALSE(plan.IsGiven("data.file"));
  EXPECT_THAT(with("--seed=x").status().message(), HasSubstr("'x' is not an integer"));
  EXPECT_THAT(with("--offload_dir=d").status().message(), HasSubstr("--disk=BYTES"));
  EXPECT_THAT(with("--prompt=x").status().message(), HasSubstr("--prompt is no flag of plan"));
}

TEST(ConfigTest, PresetNamedInAFileStaysBelowIt) {
  const std::string file =
      WriteFile("preset.toml", "[model]\npreset = \"gpt2-tiny\"\n[batch]\nglobal_batch = 4\n");
  ASSERT_OK_AND_ASSIGN(Config config, Read({"--config=" + file, "--data=a"}));
  EXPECT_EQ(config.options.batch.global_batch, 4);
  EXPECT_EQ(config.options.optimizer.learning_rate, 1e-3);
}

TEST(ConfigTest, TrainersDifferInFewDefaults) {
  ASSERT_OK_AND_ASSIGN(Config config,
                       Read({"--model=m", "--golden=g.safetensors"}, Trainer::kParity));
  EXPECT_EQ(config.options.precision.compute, "fp32");
  ASSERT_OK_AND_ASSIGN(config,
                       Read({"--model=m", "--golden=g", "--precision=bf16"}, Trainer::kParity));
  EXPECT_EQ(config.options.precision.compute, "bf16");
}

struct FileCase {
  const char* name;
  const char* text;
  std::vector<const char*> parts;  // of the message
};

TEST(ConfigTest, E2MisspeltAndMisplacedKeys) {
  const FileCase cases[] = {
      {"misspelt",
       "[optimizer]\nbeta1 = 0.9\nlearing_rate = 1e-3\n",
       {":3: ", "'learing_rate'", "learning_rate in [optimizer]"}},
      {"wrong section",
       "[run]\nsteps = 3\n\nlearning_rate = 1e-3\n",
       {":4: ", "'learning_rate' in [run]", "it belongs to [optimizer]"}},
      {"twice",
       "[optimizer]\nlearning_rate = 1e-3\nbeta1 = 0.9\nlearning_rate = 2e-3\n",
       {":4", "learning_rate"}},
      {"number for truth", "[run]\njson = 1\n", {":2: ", "run.json", "true or false"}},
      {"truth for number", "[run]\nsteps = true\n", {":2: ", "run.steps", "an integer"}},
      {"text for number", "[run]\nsteps = \"9\"\n", {":2: ", "run.steps", "a text"}},
      {"fraction for integer", "[run]\nsteps = 9.5\n", {":2: ", "run.steps", "an integer"}},
      {"no section", "steps = 9\n", {":1: ", "'steps'", "it belongs to [run]"}},
      {"unknown section",
       "[optimiser]\nbeta1 = 0.9\n",
       {":2: ", "'beta1' in [optimiser]", "it belongs to [optimizer]"}},
      {"no TOML", "[run\n", {":1"}},
      {"range", "[run]\nsteps = -1\n", {":2: ", "run.steps", "at least 0"}},
      {"choice", "[precision]\ncompute = \"int8\"\n", {":2: ", "one of bf16, fp32"}},
  };
  for (const FileCase& c : cases) {
    SCOPED_TRACE(c.name);
    const std::string file = WriteFile("e2.toml", c.text);
    const absl::StatusOr<Config> config = Read(With({"--config=" + file}));
    ASSERT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(config.status().message()), HasSubstr("e2.toml"));
    for (const char* part : c.parts) {
      EXPECT_THAT(std::string(config.status().message()), HasSubstr(part));
    }
  }
}

TEST(ConfigTest, E2ExtraSectionIsFree) {
  const std::string file = WriteFile(
      "extra.toml", "[extra]\nlearing_rate = 1\nnote = \"x\"\n[extra.deep]\na = [1, {b = 2}]\n");
  EXPECT_OK(Read(With({"--config=" + file})));
}

TEST(ConfigTest, EveryFaultOfAFileIsListedInOrderOfLines) {
  const absl::Status status = ParseConfigFile("c.toml", "[run]\nstep = 1\nseeds = 2\n").status();
  EXPECT_THAT(std::string(status.message()),
              testing::MatchesRegex("c.toml:2: .*\nc.toml:3: [^\n]*"));
}

TEST(ConfigTest, GivenTwiceInOneLayerIsRefused) {
  const std::string one = WriteFile("one.toml", "[run]\nsteps = 1\n");
  const std::string two = WriteFile("two.toml", "\n[run]\nsteps = 1\n");
  EXPECT_THAT(Read(With({"--config=" + one, "--config", two})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("run.steps is given twice"), HasSubstr("one.toml:2"),
                             HasSubstr("two.toml:3"))));
  EXPECT_THAT(Read(With({"--steps=1", "--set", "run.steps=1"})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("--steps"), HasSubstr("--set run.steps"))));
  EXPECT_OK(Read(With({"--config=" + one, "--steps=2"}))) << "two layers";
}

struct FlagCase {
  Arguments arguments;
  const char* part;
};

TEST(ConfigTest, FlagsAreChecked) {
  const FlagCase cases[] = {
      {With({"--learning-rate=1"}), "did you mean --learning_rate?"},
      {With({"--momentum=0.5"}),
       "--momentum: optimizer.momentum (--momentum) has no effect when optimizer.name is adamw"},
      {With({"--optimizer=sgd", "--beta1=0.5"}), "has no effect when optimizer.name is sgd"},
      {With({"--keep=2"}), "has no effect when run.out is not given"},
      {{"--preset=gpt2-tiny", "--data=synthetic", "--steps=1", "--validation_data=a"},
       "data.validation_file (--validation_data) has no effect when data.file is synthetic"},
      {{"--preset=gpt2-tiny", "--data=synthetic", "--steps=1", "--tokenizer=bytes"},
       "data.tokenizer (--tokenizer) has no effect when data.file is synthetic"},
      {With({std::string("--metrics=a\0b", 13)}), "--metrics: run.metrics: a NUL byte"},
      {With({"--prompt=x"}), "--prompt is no flag of pretrain; it is one of generate"},
      {With({"--schedule=1F1B"}), "names neither a learning rate's schedule (constant, linear"},
      {With({"--schedule=1F1B"}), "(did you mean 1f1b?)"},
      {With({"--steps"}), "--steps needs a value"},
      {With({"--steps", "--seed=1"}), "--steps needs a value"},
      {With({"--steps=many"}), "--steps: run.steps: 'many' is not an integer"},
      {With({"steps=3"}), "'steps=3' is no flag"},
      {With({"--optimizer.beta1=0.5"}), "write --set optimizer.beta1=VALUE"},
      {With({"--set=optimizer.beta=0.5"}), "did you mean beta1 in [optimizer]?"},
      {With({"--set=beta1=0.5"}), "--set section.key=value"},
      {With({"--set=generate.top_k=5"}), "generate.top_k has no effect in pretrain"},
      {With({"--config=/no/such/file"}), "/no/such/file"},
      {{"--data=a"}, "--preset=gpt2-tiny"},
      {{"--preset=gpt2-tiny"}, "--data (data.file) is needed"},
      {{"--preset=gpt2-huge", "--data=a"}, "one of gpt2-tiny"},
  };
  for (const FlagCase& c : cases) {
    const absl::StatusOr<Config> config = Read(c.arguments);
    EXPECT_FALSE(config.ok()) << c.part;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(c.part));
  }
}

// The null device computes nothing that these trainers could answer with.
TEST(ConfigTest, ChoicesOfOneTrainer) {
  EXPECT_OK(Read(With({"--device=null"})));
  const FlagCase cases[] = {
      {{"--model=m", "--data=a", "--device=null"}, "evaluate takes one of host, capped"},
      {{"--model=m", "--prompt=a", "--device=null"}, "generate takes one of host, capped"},
      {{"--model=m", "--golden=g", "--device=null"}, "parity takes one of host, capped"},
  };
  const Trainer trainers[] = {Trainer::kEvaluate, Trainer::kGenerate, Trainer::kParity};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_THAT(Read(cases[i].arguments, trainers[i]),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("--device: run.device: 'null'"),
                               HasSubstr(cases[i].part))));
  }
}

TEST(ConfigTest, FlagForms) {
  ASSERT_OK_AND_ASSIGN(Config config,
                       Read({"--model", "m", "--json", "--prompt", "", "--temperature=0", "--set",
                             "generate.max_new_tokens=3"},
                            Trainer::kGenerate));
  EXPECT_TRUE(config.options.run.json);
  EXPECT_EQ(config.options.model.directory, "m");
  EXPECT_EQ(config.options.generate.max_new_tokens, 3);
  ASSERT_OK_AND_ASSIGN(
      config, Read({"--model=m", "--json=false", "--prompt_ids=5,6,7"}, Trainer::kGenerate));
  EXPECT_FALSE(config.options.run.json);
  EXPECT_THAT(config.options.generate.prompt_ids, ElementsAre(5, 6, 7));
  ASSERT_OK_AND_ASSIGN(config, Read({"--help", "--data=a"}));
  EXPECT_TRUE(config.help);
}

TEST(ConfigTest, EffectiveConfigReadsBackAsTheSame) {
  const std::vector<Arguments> runs = {
      With({}),
      With({"--optimizer=sgd", "--schedule=constant", "--steps=10", "--out=a\"b"}),
      With({"--device=capped", "--device_memory=6GiB", "--data_format=text", "--packing=join"}),
      {"--model=m", "--initialize=random", "--data=synthetic", "--steps=3", "--dropout=0.1"},
  };
  for (const Arguments& run : runs) {
    ASSERT_OK_AND_ASSIGN(Config config, Read(run));
    const std::string text = ToToml(config);
    ASSERT_OK_AND_ASSIGN(Config again, Read({"--config=" + WriteFile("effective.toml", text)}));
    EXPECT_EQ(ToToml(again), text);
    EXPECT_THAT(DifferingKeys(config, again), ElementsAre());
  }
  ASSERT_OK_AND_ASSIGN(Config a, Read(With({})));
  ASSERT_OK_AND_ASSIGN(Config b, Read(With({"--seed=1", "--optimizer=sgd"})));
  EXPECT_THAT(DifferingKeys(a, b), ElementsAre("optimizer.name", "run.seed"));
}

// Hostile files: a Status, never a crash. The sanitizers watch.
TEST(ConfigTest, MangledFilesNeverCrash) {
  const std::string good = "[optimizer]\nlearning_rate = 1e-3\n[extra]\na = [1, \"x\", {b=2}]\n";
  for (size_t i = 0; i < good.size(); ++i) {
    ParseConfigFile("m.toml", absl::string_view(good).substr(0, i)).status().IgnoreError();
    for (const char c : {'\0', '[', '"', '\xff', '=', '\n'}) {
      std::string bad = good;
      bad[i] = c;
      ParseConfigFile("m.toml", bad).status().IgnoreError();
    }
  }
  EXPECT_FALSE(ParseConfigFile("deep.toml", "a = " + std::string(100000, '[')).ok());
  std::string names = "[extra]\na";
  for (int i = 0; i < 3000000; ++i) names += ".a";
  EXPECT_FALSE(ParseConfigFile("names.toml", names + " = 1").ok());
  EXPECT_OK(ParseConfigFile("names.toml", names.substr(0, 20001) + " = 1").status());
}

}  // namespace
}  // namespace colossus
