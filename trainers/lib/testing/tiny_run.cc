#include "trainers/lib/testing/tiny_run.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status.h"
#include "gtest/gtest.h"
#include "trainers/lib/config/config.h"
#include "trainers/lib/config/log.h"
#include "trainers/lib/config/run_layout.h"
#include "trainers/lib/ranks/launch.h"
#include "trainers/lib/run/run_inputs.h"

namespace colossus {
namespace {

void WriteOrDie(const std::string& path, const std::string& text) {
  const absl::Status status = RealFileSystem().WriteFileAtomically(path, text);
  CHECK(status.ok()) << status.ToString();
}

absl::StatusOr<std::map<std::string, HostTensor>> ReadStates(Session& session) {
  std::map<std::string, HostTensor> states;
  if (!session.device->computes()) return states;
  for (const StateHome& home : session.training->states()) {
    ASSIGN_OR_RETURN(states[home.info.name], session.training->program().ReadState(home.info.name));
  }
  return states;
}

std::vector<nlohmann::json> ReadMetrics(const std::string& path) {
  std::vector<nlohmann::json> lines;
  const auto text = RealFileSystem().ReadFile(path);
  if (!text.ok()) return lines;
  // What follows the last line break is a line that a kill cut off.
  const absl::string_view whole = absl::string_view(*text).substr(0, text->rfind('\n') + 1);
  for (absl::string_view line : absl::StrSplit(whole, '\n', absl::SkipEmpty())) {
    lines.push_back(nlohmann::json::parse(line.begin(), line.end()));
  }
  return lines;
}

}  // namespace

Flags With(Flags flags, const Flags& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

TinyRun::TinyRun(const std::string& name) : folder_(JoinPath(::testing::TempDir(), name)) {
  CHECK(RealFileSystem().RemoveTree(folder_).ok()) << folder_;
  CHECK(RealFileSystem().MakeDirs(Path("model")).ok()) << folder_;
  WriteModel();
  WriteText(10);
}

void TinyRun::WriteText(int64_t rows) {
  // The end token closes the text, and the first id is no target.
  std::string text;
  for (int64_t i = 0; i < rows * kTinyRowTokens; ++i) {
    text.push_back("the cat sat on a mat and "[(i * i / 3 + i) % 25]);
  }
  WriteOrDie(Path("text.txt"), text);
}

void TinyRun::WriteModel(const nlohmann::json& changes) {
  nlohmann::json config = {{"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}},
                           {"n_layer", 1},         {"n_head", 2},
                           {"n_embd", 16},         {"vocab_size", 257},
                           {"n_positions", 16},    {"attn_pdrop", 0.0},
                           {"embd_pdrop", 0.0},    {"resid_pdrop", 0.0}};
  config.update(changes);
  WriteOrDie(Path("model/config.json"), config.dump());
}

std::vector<std::string> TinyRun::WithDefaults(std::vector<std::string> flags) const {
  const std::vector<std::string> defaults = {absl::StrCat("--model=", Path("model")),
                                             "--initialize=random",
                                             absl::StrCat("--data=", Path("text.txt")),
                                             absl::StrCat("--sequence_length=", kTinyRowTokens),
                                             "--precision=fp32",
                                             "--learning_rate=0.01",
                                             "--threads=1"};
  const auto given = [&](absl::string_view prefix) {
    return std::any_of(flags.begin(), flags.end(),
                       [&](const std::string& flag) { return absl::StartsWith(flag, prefix); });
  };
  std::vector<std::string> added;
  for (const std::string& flag : defaults) {
    const std::string prefix = flag.substr(0, flag.find('=') + 1);
    // A run from a preset or from weights needs no random model of ours.
    if (prefix == "--model=" && given("--preset=")) continue;
    if (prefix == "--initialize=" && (given("--preset=") || given("--model="))) continue;
    if (!given(prefix)) added.push_back(flag);
  }
  flags.insert(flags.begin(), added.begin(), added.end());
  return flags;
}

TinyResult TinyRun::Train(const std::vector<std::string>& flags, FileSystem& files,
                          TrainHooks hooks) const {
  return TrainRanks(flags, [&](int) { return RankSetup{&files, hooks}; });
}

TinyResult TinyRun::TrainRanks(const std::vector<std::string>& flags,
                               const std::function<RankSetup(int rank)>& setup) const {
  TinyResult result;
  absl::StatusOr<Config> config =
      ReadConfig(Trainer::kPretrain, WithDefaults(flags), RealFileSystem());
  if (!config.ok()) {
    result.status = config.status();
    return result;
  }
  Log log([&](absl::string_view text) { absl::StrAppend(&result.log, text); }, false);
  JobContext context{*config, log};
  const absl::StatusOr<RunLayout> layout = LayoutOf(config->options);
  RankSetup first = setup(0);
  RunInputs inputs(*first.files, config->options, log, offload_);
  const absl::StatusOr<int> exit_code =
      RunOnRanks(context, *layout, [&](JobContext& rank, RankGroup group) {
        RankSetup own = group.first() ? first : setup(group.rank());
        own.hooks.matmul_peak = 1e9;
        if (group.first()) {
          own.hooks.after_update = [&, given = own.hooks.after_update](
                                       int64_t step, Session& session) -> absl::Status {
            ASSIGN_OR_RETURN(result.states, ReadStates(session));
            return given ? given(step, session) : absl::OkStatus();
          };
        }
        return TrainRank(*own.files, rank, own.hooks, *layout, group, inputs);
      });
  result.status = exit_code.status();
  if (exit_code.ok()) result.exit_code = *exit_code;
  if (!config->options.run.metrics.empty()) {
    result.metrics = ReadMetrics(config->options.run.metrics);
  }
  return result;
}

absl::Status TinyRun::OnRanks(const Flags& flags,
                              const std::function<absl::Status(RunOutput& output, Session& session,
                                                               RankGroup group)>& work) const {
  ASSIGN_OR_RETURN(const Config config,
                   ReadConfig(Trainer::kPretrain, WithDefaults(flags), RealFileSystem()));
  Log quiet(nullptr, false);
  JobContext context{config, quiet};
  ASSIGN_OR_RETURN(const RunLayout layout, LayoutOf(config.options));
  RunInputs inputs(RealFileSystem(), config.options, quiet);
  return RunOnRanks(context, layout,
                    [&](JobContext& rank, RankGroup group) -> absl::StatusOr<int> {
                      ASSIGN_OR_RETURN(RunOutput output,
                                       RunOutput::Open(RealFileSystem(), rank.config.options.run,
                                                       rank.log, group));
                      ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                                       OpenSession(inputs, rank.config, layout, group));
                      RETURN_IF_ERROR(output.TryToWrite());
                      RETURN_IF_ERROR(session->training->Allocate());
                      RETURN_IF_ERROR(work(output, *session, group));
                      return 0;
                    })
      .status();
}

std::vector<double> Losses(const TinyResult& result) {
  std::vector<double> losses;
  for (const nlohmann::json& line : result.metrics) losses.push_back(line.at("loss"));
  return losses;
}

void ExpectEqualLosses(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_LE(std::abs(a[i] - b[i]), 1e-5 * std::abs(b[i])) << "update " << i;
  }
}

std::vector<std::string> Checkpoints(const std::string& out) {
  absl::StatusOr<std::vector<std::string>> names = RealFileSystem().List(out + "/checkpoints");
  EXPECT_TRUE(names.ok()) << names.status();
  if (!names.ok()) return {};
  std::erase_if(*names, [](const std::string& n) { return absl::StartsWith(n, "tokenizer"); });
  return *std::move(names);
}

std::vector<std::string> ComparableLines(const std::vector<nlohmann::json>& metrics) {
  std::vector<std::string> lines;
  for (const nlohmann::json& line : metrics) {
    nlohmann::ordered_json kept;
    for (const char* key : {"step", "loss", "grad_norm", "lr", "tokens", "skipped"}) {
      kept[key] = line.at(key);
    }
    lines.push_back(kept.dump());
  }
  return lines;
}

std::string StateDifference(const std::map<std::string, HostTensor>& a,
                            const std::map<std::string, HostTensor>& b) {
  std::string difference;
  if (a.empty()) absl::StrAppend(&difference, "no states; ");
  for (const auto& item : a) {
    const auto other = b.find(item.first);
    if (other == b.end()) {
      absl::StrAppend(&difference, item.first, " is missing; ");
    } else if (!(item.second == other->second)) {
      absl::StrAppend(&difference, item.first, " differs; ");
    }
  }
  if (a.size() != b.size()) absl::StrAppend(&difference, a.size(), " and ", b.size(), " states; ");
  return difference;
}

}  // namespace colossus
