// Configuration files: what is accepted is written as TOML that reads back the same.
#include "base/check.h"
#include "tests/fuzz/fuzz_target.h"
#include "trainers/lib/config/config.h"
#include "trainers/lib/config/config_file.h"

namespace colossus {
namespace {

std::vector<std::string> Seeds() {
  return {
      "[model]\npreset = \"gpt2-tiny\"\n[data]\nfile = \"synthetic\"\nsequence_length = 64\n"
      "[run]\nsteps = 3\nseed = 7\n[extra]\nnote = \"anything\"\n",
      "[optimizer]\nname = \"adamw\"\nlearning_rate = 1e-3\nbeta1 = 0.9\nweight_decay = 0.1\n"
      "[schedule]\nkind = \"cosine\"\nwarmup_steps = 10\nminimum_ratio = 0.1\n",
      "# a comment\nmodel.directory = 'm'\nrun = {threads = 2, device = \"capped\", "
      "device_memory = \"6GB\"}\n[batch]\nmicro_batch = 2\nglobal_batch = 8\n",
      "[data]\nfile = \"a.jsonl\"\nformat = \"jsonl\"\njsonl_mode = \"lenient\"\npacking = "
      "\"borders\"\nvalidation_share = 0.1\n[precision]\ncompute = \"bf16\"\n[plan]\nrecompute = "
      "\"block\"\n",
  };
}

void Run(absl::string_view input) {
  absl::StatusOr<std::vector<Assignment>> values = ParseConfigFile("run.toml", input);
  if (!values.ok()) {
    CHECK(!values.status().message().empty());
    return;
  }
  absl::StatusOr<Config> config = MergeLayers(Trainer::kPretrain, *values, {});
  if (!config.ok()) return;
  const std::string written = ToToml(*config);
  absl::StatusOr<std::vector<Assignment>> again = ParseConfigFile("written.toml", written);
  CHECK_OK(again) << written;
  absl::StatusOr<Config> merged = MergeLayers(Trainer::kPretrain, *again, {});
  CHECK_OK(merged) << written;
  CHECK_EQ(ToToml(*merged), written);
}

}  // namespace

const FuzzTarget& Target() {
  static const FuzzTarget target = {
      .name = "toml",
      .seeds = Seeds,
      .run = Run,
      .words = {"[run]", "[extra]", "[[run]]", "'''", "\"\"\"", "true", "1979-05-27", "0x1f", "inf",
                "nan", "[1, 2]", "{a = 1}", "\"6GB\"", "steps", "learning_rate", "="},
  };
  return target;
}

}  // namespace colossus
