// The table "Refused" of docs/layouts.md, row by row: each is refused, and the message names what
// would do.
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "collectives/launcher.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "trainers/lib/answer/generate.h"
#include "trainers/lib/config/config.h"
#include "trainers/lib/config/log.h"
#include "trainers/lib/config/main.h"
#include "trainers/lib/config/run_layout.h"
#include "trainers/lib/testing/tiny_run.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

struct Row {
  std::string row;  // how the row begins, without marks of code
  absl::Status status;
  std::string remedy;
};

// Two heads, one layer (blocks embed, h.0, head) and rows of 8 tokens, unless `model` says more.
absl::Status Train(const Flags& flags, const nlohmann::json& model = nlohmann::json::object()) {
  TinyRun run("refused");
  run.WriteModel(model);
  return run.Train(With({"--steps=1"}, flags)).status;
}

absl::Status GenerateWith(const Flags& flags) {
  const Flags all =
      With({"--model=tests/golden/gpt2_untied", "--prompt_ids=1", "--threads=1"}, flags);
  const absl::StatusOr<Config> config = ReadConfig(Trainer::kGenerate, all, RealFileSystem());
  if (!config.ok()) return config.status();
  Log log(nullptr, /*terminal=*/false);
  JobContext context{*config, log};
  return Generate(RealFileSystem(), context, /*print=*/nullptr).status();
}

std::vector<Row> RowsOfRanks() {
  Launched launched;
  launched.ranks = 2;
  launched.knows_mpi = false;
  return {
      {"sizes of the mesh | they do not multiply", Train({"--ranks=8", "--mesh=data=3"}),
       "an axis can have 1, 2, 4 or 8"},
      {"sizes of the mesh | they are more", Train({"--mesh=data=4097"}), "at most 4096"},
      {"run.ranks", PlanRanks(/*ranks=*/4, /*mesh=*/"", /*world=*/2).status(), "leave it out"},
      {"tasks of srun", CheckLaunched(launched), "srun --mpi=pmix"},
      {"global_batch | micro-batch", Train({"--ranks=2", "--global_batch=5", "--micro_batch=1"}),
       "4 or 6 would do"},
      {"global_batch | fewer", Train({"--ranks=2", "--global_batch=1"}), "use at least 2"},
      {"--overrides", Train({"--overrides=*=data"}), "leave --overrides out"},
      {"--zero, --chunk_elements", Train({"--zero=1"}), "leave --zero out"},
      {"--zero, --chunk_elements", Train({"--mesh=tensor=2", "--chunk_elements=64"}),
       "leave --chunk_elements out"},
      {"--device=null", Train({"--device=null", "--ranks=2"}), "predicts a run of one rank"},
      {"--device=capped",
       Train({"--ranks=2", "--device=capped", "--device_memory=64KB", "--host_memory=64KB"}),
       "smaller micro-batch"},
  };
}

std::vector<Row> RowsOfAxes() {
  const nlohmann::json four = {{"n_head", 4}};
  return {
      {"--norms=sharded",
       Train({"--mesh=tensor=4", "--norms=sharded", "--sequence_length=7"}, four),
       "use a sequence_length of 4 or 8, or norms=auto"},
      {"--norms=sharded", GenerateWith({"--mesh=tensor=2", "--norms=sharded"}),
       "use --norms=auto or replicated"},
      {"heads | ", Train({"--mesh=tensor=3"}), "these tensor sizes would do: 1, 2"},
      {"--tensor_layout=2d", Train({"--mesh=tensor=2", "--tensor_layout=2d"}),
       "tensor=1 or tensor=4 would do"},
      {"heads, --sequence=all_to_all", Train({"--mesh=sequence=4", "--sequence=all_to_all"}),
       "these sequence sizes would do: 1, 2; --sequence=ring takes any"},
      {"--norms, --tensor_layout, --sequence", Train({"--norms=auto"}), "leave it out"},
      {"--norms, --tensor_layout, --sequence", Train({"--mesh=tensor=1", "--tensor_layout=1d"}),
       "without an axis tensor of 2 or more; leave it out"},
      {"--norms, --tensor_layout, --sequence", Train({"--mesh=sequence=1", "--sequence=ring"}),
       "without an axis sequence of 2 or more; leave it out"},
      {"axes in generate", GenerateWith({"--mesh=data=2"}), "--mesh=tensor=2"},
  };
}

std::vector<Row> RowsOfStages() {
  const Flags unequal = {"--mesh=stage:/stage:data=2"};
  std::vector<Row> rows = {
      {"stage | ", Train({"--mesh=data=2,stage=2"}), "comes first, as stage=2,data=2"},
      {"micro_batch, stages", Train(With(unequal, {"--micro_batch=1"})),
       "use a multiple of 2 as micro_batch"},
      {"--update=layerwise", Train({"--mesh=stage=2", "--update=layerwise", "--clip_norm=0"}),
       "use update=whole"},
      {"--recompute=optimal", Train({"--mesh=stage=2", "--recompute=optimal"}),
       "use recompute=block, selective or auto"},
      {"--recompute=auto", Train(With(unequal, {"--micro_batch=2", "--recompute=auto"})),
       "none, cheap, selective or block"},
      {"stages × chunks", Train({"--mesh=stage=4"}), "use at most 3 stages"},
      {"--borders", Train({"--mesh=stage=2", "--borders=h.0,head"}), "the stages hold 2"},
      {"--borders", Train({"--mesh=stage=2", "--borders=h.7"}), "blocks are embed, h.0, head"},
      {"--schedule | ",
       Train({"--mesh=stage=2", "--schedule=interleaved", "--micro_batch=1", "--micro_batches=3"},
             {{"n_layer", 4}}),
       "use micro_batches=2 or 4"},
      {"--accumulation_order=vertical",
       Train({"--mesh=stage=2", "--accumulation_order=vertical"}), "leave it out"},
  };
  for (const char* flag : {"--schedule=gpipe", "--schedule=1f1b", "--chunks=2", "--borders=h.0"}) {
    for (const Flags& mesh : std::vector<Flags>{
             {}, {"--mesh=stage=1"}, {"--mesh=stage:data=2"}, {"--ranks=2", "--zero=1"}}) {
      rows.push_back({"--schedule of a pipeline", Train(With(mesh, {flag})),
                      "without an axis stage of 2 or more; leave it out"});
    }
  }
  return rows;
}

// As "what | when | what would do", without marks of code.
std::vector<std::string> TableOfThePage() {
  const absl::StatusOr<std::string> page = RealFileSystem().ReadFile("docs/layouts.md");
  EXPECT_OK(page);
  if (!page.ok()) return {};
  std::vector<std::string> rows;
  bool inside = false;
  for (absl::string_view line : absl::StrSplit(*page, '\n')) {
    if (absl::StartsWith(line, "## ")) inside = line == "## Refused";
    if (!inside || !absl::StartsWith(line, "| ") || absl::StartsWith(line, "| --- ")) continue;
    if (absl::StartsWith(line, "| what |")) continue;
    rows.push_back(absl::StrReplaceAll(line.substr(2), {{"`", ""}}));
  }
  return rows;
}

TEST(RefusalsTest, EveryRowOfThePage) {
  std::vector<Row> rows;
  for (const auto& some : {RowsOfRanks(), RowsOfAxes(), RowsOfStages()}) {
    rows.insert(rows.end(), some.begin(), some.end());
  }
  const std::vector<std::string> page = TableOfThePage();
  std::set<std::string> seen;
  for (const Row& row : rows) {
    SCOPED_TRACE(row.row);
    EXPECT_FALSE(row.status.ok());
    EXPECT_THAT(std::string(row.status.message()), HasSubstr(row.remedy));
    int found = 0;
    for (const std::string& line : page) {
      if (!absl::StartsWith(line, row.row)) continue;
      ++found;
      seen.insert(line);
    }
    EXPECT_EQ(found, 1) << "rows of the page";
  }
  for (const std::string& line : page) EXPECT_TRUE(seen.contains(line)) << "no test of: " << line;
}

}  // namespace
}  // namespace colossus
