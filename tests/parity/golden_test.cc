// Every golden case through the parity trainer, within the limits it suggests: with each way its
// config is written, with recomputation, on a device with memory of its own, and on ranks.
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "shardformer/config.h"
#include "trainers/lib/answer/parity.h"
#include "trainers/lib/config/config.h"
#include "trainers/lib/config/log.h"

namespace colossus {
namespace {

constexpr char kGoldens[] = "tests/golden";

struct Variant {
  const char* name;
  const char* config;  // in place of config.json; empty: that
  std::vector<std::string> flags;
};

const Variant kVariants[] = {
    {"plain", "", {}},
    {"written by transformers 4", "alt/config_v4.json", {}},
    {"defaults left out", "alt/config_min.json", {}},
    {"recomputed", "", {"--recompute=block"}},
    {"capped device", "", {"--device=capped", "--device_memory=16777216", "--recompute=block"}},
};

std::vector<std::string> Cases() {
  std::vector<std::string> cases;
  absl::StatusOr<std::vector<std::string>> entries = RealFileSystem().List(kGoldens);
  if (!entries.ok()) return cases;
  for (const std::string& entry : *entries) {
    if (RealFileSystem().Exists(JoinPath(JoinPath(kGoldens, entry), "golden.safetensors"))) {
      cases.push_back(entry);
    }
  }
  return cases;
}

// Positions dealt out in zigzag and padded, or exchanged for heads: logits come back in order.
std::vector<Variant> OnRanks(const std::string& folder) {
  absl::StatusOr<ModelConfig> config =
      LoadModelConfig(RealFileSystem(), JoinPath(folder, "config.json"));
  EXPECT_OK(config.status());
  if (!config.ok()) return {};
  int64_t parts = 2;  // that heads can be split into
  while (config->heads % parts != 0) ++parts;
  const std::string ranks = absl::StrCat("--ranks=", parts);
  return {{"ring", "", {"--ranks=2", "--mesh=sequence=2"}},
          {"data and ring", "", {"--ranks=4", "--mesh=data=2,sequence=2", "--zero=3"}},
          {"all to all",
           "",
           {ranks, absl::StrCat("--mesh=sequence=", parts), "--sequence=all_to_all"}},
          {"tensor", "", {ranks, absl::StrCat("--mesh=tensor=", parts)}}};
}

using ::testing::HasSubstr;

class GoldenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, WithinTheLimits) {
  const std::string folder = JoinPath(kGoldens, GetParam());
  std::vector<Variant> variants = OnRanks(folder);
  variants.insert(variants.begin(), std::begin(kVariants), std::end(kVariants));
  for (const Variant& variant : variants) {
    SCOPED_TRACE(variant.name);
    std::vector<std::string> arguments = {
        absl::StrCat("--model=", folder),
        absl::StrCat("--golden=", JoinPath(folder, "golden.safetensors")), "--threads=1"};
    if (variant.config[0] != '\0') {
      arguments.push_back(absl::StrCat("--model_config=", JoinPath(folder, variant.config)));
    }
    arguments.insert(arguments.end(), variant.flags.begin(), variant.flags.end());
    ASSERT_OK_AND_ASSIGN(Config config,
                         ReadConfig(Trainer::kParity, arguments, RealFileSystem()));
    Log log(nullptr, false);
    JobContext context{config, log};
    EXPECT_THAT(RunParity(context), IsOkAndHolds(0));
  }
}

// A limit that nothing can miss shows nothing: a thousandth of it must fail somewhere.
TEST_P(GoldenTest, LimitsCanBeMissed) {
  const std::string folder = JoinPath(kGoldens, GetParam());
  ASSERT_OK_AND_ASSIGN(
      Config config,
      ReadConfig(Trainer::kParity,
                 {absl::StrCat("--model=", folder),
                  absl::StrCat("--golden=", JoinPath(folder, "golden.safetensors")),
                  "--threads=1", "--tolerance=0.001"},
                 RealFileSystem()));
  Log log(nullptr, false);
  JobContext context{config, log};
  EXPECT_THAT(RunParity(context), IsOkAndHolds(1));
}

// What --out names by mistake, as the golden itself, stays; parity's own file is written again.
TEST(ParityOutTest, OverwritesOnlyItsOwn) {
  FileSystem& files = RealFileSystem();
  const std::string folder = JoinPath(kGoldens, "gpt2_untied");
  const std::string golden = JoinPath(folder, "golden.safetensors");
  const std::string own = JoinPath(testing::TempDir(), "computed.safetensors");
  const std::string copy = JoinPath(testing::TempDir(), "golden.safetensors");
  const std::string text = JoinPath(testing::TempDir(), "diary");
  ASSERT_OK_AND_ASSIGN(const std::string bytes, files.ReadFile(golden));
  ASSERT_OK(files.WriteFileAtomically(copy, bytes));
  ASSERT_OK(files.WriteFileAtomically(text, "dear diary"));
  const auto run = [&](const std::string& out) -> absl::StatusOr<int> {
    const absl::StatusOr<Config> config = ReadConfig(
        Trainer::kParity,
        {"--model=" + folder, "--golden=" + golden, "--threads=1", "--out=" + out}, files);
    if (!config.ok()) return config.status();
    Log log(nullptr, false);
    JobContext context{*config, log};
    return RunParity(context);
  };
  EXPECT_THAT(run(own), IsOkAndHolds(0));
  EXPECT_THAT(run(own), IsOkAndHolds(0));
  for (const std::string& other : {copy, text}) {
    EXPECT_THAT(run(other).status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                              HasSubstr("--out=" + other + " is another file")));
  }
  EXPECT_THAT(files.ReadFile(copy), IsOkAndHolds(bytes));
  EXPECT_THAT(files.ReadFile(text), IsOkAndHolds("dear diary"));
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param; });

TEST(GoldenCasesTest, AllAreThere) {
  const std::vector<std::string> found = Cases();
  EXPECT_EQ(std::set<std::string>(found.begin(), found.end()),
            (std::set<std::string>{"gpt2_inner", "gpt2_untied", "llama_llama3_bias",
                                   "llama_shards", "llama_tied", "llama_yarn", "mistral_window",
                                   "qwen2_layers"}));
}

}  // namespace
}  // namespace colossus
