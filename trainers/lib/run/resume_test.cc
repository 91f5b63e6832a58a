// Runs that are interrupted and go on: field cases C1, C3 and E3 at the level of the trainer.
#include "trainers/lib/run/resume.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/status.h"
#include "base/testing/faulty_file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tensor/host_tensor.h"
#include "tensor/optim/update.h"
#include "trainers/lib/checkpoint/checkpoint.h"
#include "trainers/lib/checkpoint/write.h"
#include "trainers/lib/config/config.h"
#include "trainers/lib/testing/tiny_run.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Ends the run as a crash would, after the update `step`.
TrainHooks CrashAfter(int64_t step) {
  TrainHooks hooks;
  hooks.after_update = [step](int64_t now, Session&) {
    return now == step ? absl::AbortedError("crash") : absl::OkStatus();
  };
  return hooks;
}

// Asks the run to end, as a signal would, after the update `step`.
TrainHooks SignalAfter(int64_t step, int signal) {
  TrainHooks hooks;
  auto seen = std::make_shared<int64_t>(0);
  hooks.after_update = [seen](int64_t now, Session&) {
    *seen = now;
    return absl::OkStatus();
  };
  hooks.stop = [seen, step, signal] { return *seen >= step ? signal : 0; };
  return hooks;
}

struct Place {
  std::string out, metrics;
  Flags flags() const { return {"--out=" + out, "--metrics=" + metrics}; }
};
Place PlaceOf(const TinyRun& run, const std::string& name) {
  return {run.Path(name), run.Path(name + ".jsonl")};
}

void ExpectEqualRuns(const TinyResult& actual, const TinyResult& expected) {
  EXPECT_OK(actual.status);
  EXPECT_EQ(ComparableLines(actual.metrics), ComparableLines(expected.metrics));
  EXPECT_EQ(StateDifference(actual.states, expected.states), "");
}

// The checkpoint at `path` as runs wrote it whose norms had narrow parameters and masters.
absl::Status NarrowTheNorms(const std::string& folder, int64_t step) {
  FileSystem& files = RealFileSystem();
  const std::string path = CheckpointPath(folder, step);
  ASSIGN_OR_RETURN(const Checkpoint saved, Checkpoint::Open(files, path));
  CheckpointRecord record = saved.record();
  std::map<std::string, HostTensor> values;
  for (const SavedState& state : saved.record().states) {
    ASSIGN_OR_RETURN(HostTensor whole, saved.Read(state.name));
    if (state.role == Name(Role::kParameter) && state.type.dtype == DType::kF32) {
      SavedState master = state;
      master.name = StateName(Role::kMaster, state.name);
      master.role = std::string(Name(Role::kMaster));
      record.states.push_back(master);
      values[master.name] = whole;
      whole = whole.Converted(DType::kBF16);
    }
    values[state.name] = std::move(whole);
  }
  for (SavedState& state : record.states) state.type = values.at(state.name).type();
  RETURN_IF_ERROR(files.RemoveTree(path));
  const std::vector<SavedPiece> pieces = WholePieces(record.states);
  return WriteCheckpoint(
      files, folder, record, pieces, [&](size_t piece, int64_t offset, void* dst, int64_t bytes) {
        const HostTensor& value = values.at(pieces[piece].state);
        std::memcpy(dst, static_cast<const char*>(value.raw()) + offset,
                    static_cast<size_t>(bytes));
        return absl::OkStatus();
      });
}

TEST(ResumeTest, NormsThatWereNarrow) {
  TinyRun run("narrow_norms");
  run.WriteText(10);
  const Flags flags = {"--precision=bf16", "--global_batch=2", "--schedule=constant"};
  const Place whole = PlaceOf(run, "whole"), parts = PlaceOf(run, "parts");
  const TinyResult expected = run.Train(With(With(flags, whole.flags()), {"--steps=4"}));
  ASSERT_OK(expected.status);
  ASSERT_OK(run.Train(With(With(flags, parts.flags()), {"--steps=2"})).status);
  ASSERT_OK(NarrowTheNorms(CheckpointFolder(parts.out), 2));
  ExpectEqualRuns(run.Train(With(With(flags, parts.flags()), {"--steps=4"})), expected);
}

// C1, first part: 10 samples, batch 2, shuffled, stopped after step 7, in epoch 2.
TEST(ResumeTest, C1_InsideEpochTwo) {
  TinyRun run("c1a");
  run.WriteText(10);
  const Flags flags = {"--global_batch=2", "--epochs=2", "--save_every=1"};
  const Place whole = PlaceOf(run, "whole"), parts = PlaceOf(run, "parts");
  const TinyResult expected = run.Train(With(flags, whole.flags()));
  ASSERT_OK(expected.status);
  ASSERT_EQ(expected.metrics.size(), 10);

  const TinyResult stopped =
      run.Train(With(flags, parts.flags()), RealFileSystem(), SignalAfter(7, 15));
  ASSERT_OK(stopped.status);
  EXPECT_EQ(stopped.exit_code, 128 + 15);
  EXPECT_EQ(stopped.metrics.size(), 7);
  const TinyResult resumed = run.Train(With(flags, parts.flags()));
  EXPECT_THAT(resumed.log, AllOf(HasSubstr("resumes from"), HasSubstr("step-7"),
                                 HasSubstr("goes on with step 8 of 10")));
  ExpectEqualRuns(resumed, expected);
}

// C1, second part: 20 samples, batch 2 with accumulation 2, stopped after update 3: the next sample
// is number 12.
TEST(ResumeTest, C1_WithAccumulation) {
  TinyRun run("c1b");
  run.WriteText(20);
  const Flags flags = {"--micro_batch=2", "--global_batch=4", "--epochs=1"};
  const Place whole = PlaceOf(run, "whole"), parts = PlaceOf(run, "parts");
  const TinyResult expected = run.Train(With(flags, whole.flags()));
  ASSERT_OK(run.Train(With(flags, parts.flags()), RealFileSystem(), SignalAfter(3, 2)).status);
  ASSERT_OK_AND_ASSIGN(Checkpoint checkpoint,
                       Checkpoint::Open(RealFileSystem(), parts.out + "/checkpoints/step-3"));
  EXPECT_EQ(checkpoint.record().data, (DataPosition{0, 12}));
  ExpectEqualRuns(run.Train(With(flags, parts.flags())), expected);
}

// A crash after any update, whatever was saved, with both optimizers and in bf16 with dropout, and
// with moments rounded at random.
TEST(ResumeTest, CrashAfterAnyStep) {
  TinyRun run("crash");
  run.WriteText(9);  // the last update of an epoch is short
  const Flags kCases[] = {
      {"--save_every=2", "--optimizer=sgd"},
      {"--save_every=3", "--precision=bf16", "--dropout=0.1", "--warmup_steps=2"},
      {"--save_every=2", "--optimizer_state=bf16", "--accumulation_order=vertical"},
  };
  for (const Flags& flags_of_case : kCases) {
    const Flags flags =
        With(flags_of_case, {"--micro_batch=1", "--global_batch=2", "--steps=7", "--keep=1"});
    ASSERT_OK(RealFileSystem().RemoveTree(run.Path("whole")));
    const TinyResult expected = run.Train(With(flags, PlaceOf(run, "whole").flags()));
    ASSERT_OK(expected.status);
    for (int64_t step = 1; step <= 7; ++step) {
      SCOPED_TRACE(absl::StrCat(flags_of_case[0], ", crash after step ", step));
      const Place parts = PlaceOf(run, "parts");
      ASSERT_OK(RealFileSystem().RemoveTree(parts.out));
      const TinyResult crashed =
          run.Train(With(flags, parts.flags()), RealFileSystem(), CrashAfter(step));
      EXPECT_THAT(crashed.status, StatusIs(absl::StatusCode::kAborted, "crash"));
      ExpectEqualRuns(run.Train(With(flags, parts.flags())), expected);
    }
  }
}

// E2: each checkpoint has the effective config, defaults included, that the log printed; as a
// --config file it is the same run.
TEST(ResumeTest, E2_EffectiveConfigIsSaved) {
  TinyRun run("e2");
  const Flags flags = {"--steps=2", "--save_every=1", "--out=" + run.Path("out")};
  const TinyResult result = run.Train(flags);
  ASSERT_OK(result.status);
  for (const char* step : {"1", "2"}) {
    ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint,
                         Checkpoint::Open(RealFileSystem(),
                                          run.Path(absl::StrCat("out/checkpoints/step-", step))));
    const std::string& config = checkpoint.record().config;
    EXPECT_THAT(config, AllOf(HasSubstr("learning_rate = 0.01\n"), HasSubstr("beta2 = 0.95\n"),
                              HasSubstr("global_batch = 8\n")));
    ASSERT_OK(RealFileSystem().WriteFileAtomically(run.Path("run.toml"), config));
    ASSERT_OK_AND_ASSIGN(const Config again,
                         ReadConfig(Trainer::kPretrain, Flags{"--config=" + run.Path("run.toml")},
                                    RealFileSystem()));
    EXPECT_EQ(ToToml(again), config);
  }
  EXPECT_THAT(result.log, AllOf(HasSubstr("beta2 = 0.95"), HasSubstr("global_batch = 8")));
}

TEST(ResumeTest, FinishedRunStaysFinished) {
  TinyRun run("finished");
  const Flags flags = With({"--steps=3"}, PlaceOf(run, "out").flags());
  const TinyResult first = run.Train(flags);
  ASSERT_OK(first.status);
  const TinyResult again = run.Train(flags);
  EXPECT_OK(again.status);
  EXPECT_THAT(again.log, HasSubstr("all 3 updates of the run are done"));
  EXPECT_EQ(ComparableLines(again.metrics), ComparableLines(first.metrics));
}

// Damaged checkpoints are refused, not trained over and then removed.
TEST(ResumeTest, OnlyDamagedCheckpointsAreRefused) {
  TinyRun run("damaged");
  const Place place = PlaceOf(run, "out");
  const Flags flags = With({"--steps=2", "--save_every=1"}, place.flags());
  ASSERT_OK(run.Train(flags).status);
  FileSystem& files = RealFileSystem();
  for (const char* step : {"step-1", "step-2"}) {
    const std::string manifest = place.out + "/checkpoints/" + step + "/manifest.json";
    ASSERT_OK(files.WriteFileAtomically(manifest, "{"));
  }
  const TinyResult again = run.Train(flags);
  EXPECT_THAT(again.status, StatusIs(absl::StatusCode::kDataLoss,
                                     AllOf(HasSubstr("can be read"), HasSubstr("another --out"))));
  EXPECT_TRUE(files.Exists(place.out + "/checkpoints/step-1"));
  EXPECT_EQ(again.metrics.size(), 2);
}

TEST(ResumeTest, NeverRefusesAFolderInUse) {
  TinyRun run("never");
  const Flags flags = {"--steps=1", "--out=" + run.Path("out"), "--resume=never"};
  EXPECT_OK(run.Train(flags).status);
  EXPECT_THAT(run.Train(flags).status,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not empty")));
}

// Every key has a rule, and the default is to refuse.
TEST(ResumeTest, AnotherRunIsRefused) {
  TinyRun run("another");
  const Flags flags = {"--steps=2", "--micro_batch=1", "--global_batch=2",
                       "--out=" + run.Path("out")};
  ASSERT_OK(run.Train(flags).status);
  struct Row {
    Flags more;
    const char* message;  // "": it goes on
  };
  const Row kTable[] = {
      {{"--seed=1"}, "run.seed was 0, is 1"},
      {{"--beta1=0.5"}, "optimizer.beta1 was 0.9, is 0.5"},
      {{"--optimizer=sgd", "--schedule=constant"}, "optimizer.name was \"adamw\", is \"sgd\"; "},
      {{"--sequence_length=4"}, "data.sequence_length was 8, is 4"},
      {{"--save_every=1", "--keep=3", "--recompute=block"}, ""},
      {{"--profile", "--profile_file=" + run.Path("profile.json")}, ""},
      {{"--tokenizer=" + run.Path("out") + "/checkpoints/tokenizer.json"}, ""},
      {{"--tokenizer=" + run.Path("other.json")}, "trained with another tokenizer"},
  };
  ASSERT_OK_AND_ASSIGN(
      const std::string bytes,
      RealFileSystem().ReadFile(run.Path("out") + "/checkpoints/tokenizer.json"));
  nlohmann::json other = nlohmann::json::parse(bytes);
  other["normalizer"] = {{"type", "NFC"}};
  ASSERT_OK(RealFileSystem().WriteFileAtomically(run.Path("other.json"), other.dump()));
  for (const Row& row : kTable) {
    const TinyResult result = run.Train(With(flags, row.more));
    if (row.message[0] == '\0') {
      EXPECT_OK(result.status);
      continue;
    }
    EXPECT_THAT(result.status,
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(run.Path("out")), HasSubstr(row.message))));
  }
  run.WriteText(11);
  EXPECT_THAT(run.Train(flags).status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("had 10 rows"), HasSubstr("has 11 now"))));
  run.WriteModel({{"n_layer", 2}});
  EXPECT_THAT(run.Train(flags).status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("another model"), HasSubstr("n_layer"))));
}

// What was derived counts: 8 rows by default are 8 rows that were asked for, and a smaller
// micro-batch does not make a smaller update.
TEST(ResumeTest, DerivedBatchIsTheSameRun) {
  TinyRun run("derived");
  const Flags flags = {"--steps=2", "--out=" + run.Path("out")};
  ASSERT_OK(run.Train(flags).status);
  EXPECT_OK(run.Train(With(flags, {"--global_batch=8"})).status);
  const TinyResult narrow = run.Train(With(flags, {"--global_batch=8", "--micro_batch=4"}));
  EXPECT_OK(narrow.status);
  EXPECT_THAT(narrow.log, HasSubstr("batch.micro_batch was 8, is 4"));
  EXPECT_THAT(run.Train(With(flags, {"--micro_batch=4"})).status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("batch.global_batch was 8, is 4")));
}

TEST(ResumeTest, LongerRunIsNoted) {
  TinyRun run("longer");
  const Place place = PlaceOf(run, "out");
  ASSERT_OK(run.Train(With({"--steps=2"}, place.flags())).status);
  const TinyResult longer = run.Train(With({"--steps=4"}, place.flags()));
  EXPECT_OK(longer.status);
  EXPECT_EQ(longer.metrics.size(), 4);
  EXPECT_THAT(longer.log, HasSubstr("run.steps was 2, is 4"));
}

// Steps that were taken are not taken back.
TEST(ResumeTest, ShorterRunIsRefused) {
  TinyRun run("shorter");
  const Place place = PlaceOf(run, "out");
  ASSERT_OK(run.Train(With({"--steps=4"}, place.flags())).status);
  EXPECT_THAT(run.Train(With({"--steps=3"}, place.flags())).status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("step-4 is the end of step 4"), HasSubstr("3 updates"),
                             HasSubstr("at least 4"))));
  const TinyResult again = run.Train(With({"--steps=4"}, place.flags()));
  EXPECT_OK(again.status);
  EXPECT_EQ(again.metrics.size(), 4) << "the refused run touched nothing";
}

// C3 in a running job: a save that fails is reported, training goes on, the older checkpoint stays
// bitwise as it was, and the next save succeeds.
TEST(ResumeTest, C3_FullDiskWhileTraining) {
  TinyRun run("full");
  const Flags flags = {"--steps=6", "--save_every=2", "--keep=5", "--out=" + run.Path("out")};
  int64_t operations = 0;  // when the save of step 4 begins
  FaultyFileSystem counting(RealFileSystem());
  TrainHooks hooks;
  hooks.after_update = [&](int64_t step, Session&) {
    if (step == 4) operations = counting.operations();
    return absl::OkStatus();
  };
  ASSERT_OK(run.Train(flags, counting, hooks).status);
  const std::string step_2 = run.Path("out/checkpoints/step-2/states.safetensors");
  ASSERT_OK_AND_ASSIGN(const std::string expected, RealFileSystem().ReadFile(step_2));
  ASSERT_OK(RealFileSystem().RemoveTree(run.Path("out")));

  FaultyFileSystem full(RealFileSystem(),
                        {.fail_operation = operations + 6,
                         .failure = absl::ResourceExhaustedError("no space left on device")});
  const TinyResult result = run.Train(flags, full);
  EXPECT_OK(result.status);
  EXPECT_THAT(result.log, AllOf(HasSubstr("step 4 is not saved, training goes on"),
                                HasSubstr("no space left"), HasSubstr("newest checkpoint: "),
                                HasSubstr("step-2"), HasSubstr("saved ")));
  ASSERT_OK_AND_ASSIGN(const auto names, RealFileSystem().List(run.Path("out/checkpoints")));
  EXPECT_THAT(names, ElementsAre("step-2", "step-6", "tokenizer.json", "tokenizer_config.json"));
  EXPECT_THAT(RealFileSystem().ReadFile(step_2), IsOkAndHolds(expected));
}

// C3: the whole job dies in its second save, at each operation; the next run states what it passed
// over and ends as if nothing had happened.
TEST(ResumeTest, C3_KilledWhileSaving) {
  TinyRun run("killed");
  const Flags flags = {"--steps=4", "--save_every=2"};
  const TinyResult expected = run.Train(With(flags, PlaceOf(run, "whole").flags()));
  int passed_over = 0;
  for (const int64_t after : {0, 2, 4, 6, 8, 10, 12}) {
    SCOPED_TRACE(after);
    const Place parts = PlaceOf(run, "parts");
    ASSERT_OK(RealFileSystem().RemoveTree(parts.out));
    int64_t operations = 0;
    FaultyFileSystem counting(RealFileSystem());
    TrainHooks hooks = CrashAfter(4);
    const auto crash = hooks.after_update;
    hooks.after_update = [&](int64_t step, Session& session) {
      operations = counting.operations();
      return crash(step, session);
    };
    EXPECT_FALSE(run.Train(With(flags, parts.flags()), counting, hooks).status.ok());
    ASSERT_OK(RealFileSystem().RemoveTree(parts.out));
    FaultyFileSystem dying(RealFileSystem(),
                           {.kill_operation = operations + after, .lose_unsynced = false});
    EXPECT_FALSE(run.Train(With(flags, parts.flags()), dying).status.ok());
    const TinyResult resumed = run.Train(With(flags, parts.flags()));
    ExpectEqualRuns(resumed, expected);
    passed_over += resumed.log.find("step-4.tmp is passed over") != std::string::npos;
  }
  EXPECT_GT(passed_over, 0);
}

// B1: a device of exactly the planned bytes is enough, for a fresh run and for one that goes on,
// with validation; a byte less is refused before the first step. Every state has its place from the
// start: in bf16 with fp32 master and moments 14 bytes a parameter; gradients, 2 more, come and go.
TEST(ResumeTest, B1_PeakOfAResumedRun) {
  TinyRun run("b1");
  run.WriteText(40);
  const Flags flags = {"--precision=bf16", "--global_batch=4", "--micro_batch=2",
                       "--validation_share=0.2", "--validate_every=1"};
  int64_t states = 0, expected = 0;
  TrainHooks hooks;
  hooks.after_update = [&](int64_t, Session& session) {
    states = expected = 0;
    for (const StateHome& home : session.training->states()) states += home.type.bytes();
    for (const StateInfo& info : session.training->parameters()) {
      const bool norm = absl::StrContains(info.name, ".ln_");  // without a copy beside its master
      expected += (norm ? 12 : 14) * ElementCount(info.global_dims);
    }
    return absl::OkStatus();
  };
  const TinyResult host = run.Train(
      With(flags, {"--steps=3", "--metrics=" + run.Path("host.jsonl")}), RealFileSystem(), hooks);
  ASSERT_OK(host.status);
  EXPECT_EQ(states, expected);
  const int64_t bytes = host.metrics[0]["device_peak_bytes"];
  for (const nlohmann::json& line : host.metrics) EXPECT_EQ(line["device_peak_bytes"], bytes);

  const Place place = PlaceOf(run, "out");
  const auto capped = [&](int64_t memory, const char* steps) {
    return run.Train(With(With(flags, place.flags()),
                          {"--device=capped", absl::StrCat("--device_memory=", memory), steps}));
  };
  // Less than an instruction needs at once; with anything above it the host helps.
  const TinyResult less = capped(20000, "--steps=3");
  EXPECT_THAT(less.status, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_TRUE(less.states.empty());
  ASSERT_OK(capped(bytes, "--steps=3").status);
  const TinyResult resumed = capped(bytes, "--steps=6");
  ASSERT_OK(resumed.status);
  ASSERT_EQ(resumed.metrics.size(), 6);
  for (const nlohmann::json& line : resumed.metrics) {
    EXPECT_EQ(line["device_peak_bytes"], bytes) << line["step"];
  }
}

// A file operation of a whole run fails, whichever it is: the same command, given again, ends as if
// nothing had happened.
TEST(ResumeTest, C3_AnyOperationOfARunFailsOnce) {
  TinyRun run("sweep");
  const Flags flags = {"--steps=2", "--save_every=1", "--keep=1", "--global_batch=2"};
  const TinyResult expected = run.Train(With(flags, PlaceOf(run, "whole").flags()));
  ASSERT_OK(expected.status);
  const Place parts = PlaceOf(run, "parts");
  FaultyFileSystem counting(RealFileSystem());
  ASSERT_OK(run.Train(With(flags, parts.flags()), counting).status);
  ASSERT_GT(counting.operations(), 40);
  const std::vector<std::string> lines = ComparableLines(expected.metrics);
  // checkpoint_test.cc tries every operation of a save; of a run, one in five.
  for (int64_t k = 0; k < counting.operations(); k += 5) {
    SCOPED_TRACE(absl::StrCat("operation ", k));
    ASSERT_OK(RealFileSystem().RemoveTree(parts.out));
    ASSERT_OK(RealFileSystem().RemoveTree(parts.metrics));
    FaultyFileSystem failing(RealFileSystem(), {.fail_operation = k});
    const TinyResult failed = run.Train(With(flags, parts.flags()), failing);
    const TinyResult again = run.Train(With(flags, parts.flags()));
    ASSERT_OK(again.status) << failed.status << failed.log;
    // A line that could not be written is missing; its update was saved all the same.
    EXPECT_THAT(ComparableLines(again.metrics), ::testing::IsSubsetOf(lines));
    if (!again.states.empty()) {
      EXPECT_EQ(StateDifference(again.states, expected.states), "");
    }
  }
}

// E3: the logged rate follows applied updates from 0, for any accumulation and after a resume.
TEST(ResumeTest, E3_LoggedRate) {
  TinyRun run("e3");
  run.WriteText(40);
  const int64_t kSteps = 10, kWarmup = 4;
  const double kPeak = 1e-3;
  for (const char* micro_batch : {"--micro_batch=4", "--micro_batch=1"}) {
    const Flags flags = {micro_batch, "--global_batch=4", "--steps=10", "--warmup_steps=4",
                         "--schedule=cosine", "--learning_rate=1e-3"};
    const Place place = PlaceOf(run, micro_batch);
    ASSERT_OK(run.Train(With(flags, place.flags()), RealFileSystem(), SignalAfter(6, 15)).status);
    const TinyResult result = run.Train(With(flags, place.flags()));
    ASSERT_OK(result.status);
    ASSERT_EQ(result.metrics.size(), kSteps);
    for (int64_t k = 0; k < kSteps; ++k) {
      const double share = static_cast<double>(k - kWarmup) / (kSteps - kWarmup);
      const double rate = k < kWarmup ? kPeak * k / kWarmup
                                      : kPeak * 0.5 * (1 + std::cos(std::numbers::pi * share));
      EXPECT_NEAR(result.metrics[k]["lr"].get<double>(), rate, 1e-6 * rate) << k;
    }
  }
}

}  // namespace
}  // namespace colossus
