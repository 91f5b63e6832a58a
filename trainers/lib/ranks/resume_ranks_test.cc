// Going on from checkpoints of many ranks, with the field cases' own numbers: C2 (other layouts)
// and C3 (a disk that is full for one rank, a job that dies while it saves).
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
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
#include "parallel/state_share.h"
#include "tensor/host_tensor.h"
#include "trainers/lib/checkpoint/checkpoint.h"
#include "trainers/lib/ranks/rank_group.h"
#include "trainers/lib/ranks/whole_state.h"
#include "trainers/lib/run/run_output.h"
#include "trainers/lib/run/session.h"
#include "trainers/lib/testing/tiny_run.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Contents = std::map<std::string, std::string>;  // of files, by path

// ---- C2: tensors of 10 and 10,250 elements, saved after 5 AdamW steps at data=4 with ZeRO-1.

class C2Test : public ::testing::Test {
 protected:
  C2Test() : run_("c2_numbers") {
    run_.WriteModel({{"n_embd", 10}, {"n_head", 2}, {"vocab_size", 1025}});
    run_.WriteText(24 * 9);
  }

  // Five steps at data=4 with ZeRO-1, into the folder `name`.
  void SaveFive(const Flags& flags, const std::string& name) {
    ASSERT_OK(
        run_.Train(With(flags, {"--steps=5", "--ranks=4", "--zero=1", "--out=" + run_.Path(name),
                                "--metrics=" + run_.Path(name + ".jsonl")}))
            .status);
  }

  // What the ranks of a layout hold, all together, when they have loaded the checkpoint.
  std::map<std::string, HostTensor> Loaded(const Flags& flags) {
    std::map<std::string, HostTensor> states;
    EXPECT_OK(run_.OnRanks(flags, [&](RunOutput& output, Session& session, RankGroup group) {
      return Load(output, session, group, states);
    }));
    return states;
  }

  static absl::Status Load(RunOutput& output, Session& session, RankGroup group,
                           std::map<std::string, HostTensor>& states) {
    RETURN_IF_ERROR(output.Restore(session));
    for (const JobState& state : session.training->job_states()) {
      ASSIGN_OR_RETURN(HostTensor whole, ReadWholeState(*session.training, state.info.name, group));
      if (group.first()) states[state.info.name] = std::move(whole);
    }
    return absl::OkStatus();
  }

  static const std::vector<Flags>& Layouts() {
    static const std::vector<Flags>& layouts = *new std::vector<Flags>{
        {"--ranks=1"},
        {"--ranks=2"},
        {"--ranks=3"},
        {"--ranks=4"},
        {"--ranks=8"},
        {"--ranks=4", "--zero=3"},
        {"--ranks=8", "--zero=2"},
        {"--mesh=tensor=2"},
        {"--mesh=data=2,tensor=2", "--zero=1"},
        {"--mesh=stage=2"},
        {"--mesh=stage=2,data=2", "--zero=1"},
    };
    return layouts;
  }

  TinyRun run_;
};

// Parameters, masters and moments: bit by bit what was saved.
TEST_F(C2Test, EveryLayoutLoadsTheSameBits) {
  const Flags flags = {"--global_batch=24", "--precision=bf16", "--schedule=constant"};
  SaveFive(flags, "saved");
  ASSERT_OK_AND_ASSIGN(
      const Checkpoint saved,
      Checkpoint::Open(RealFileSystem(), CheckpointPath(CheckpointFolder(run_.Path("saved")), 5)));
  int tens = 0, large = 0, masters = 0;
  for (const SavedState& state : saved.record().states) {
    tens += state.type.elements() == 10;
    large += state.type.elements() == 10250;
    masters += absl::StartsWith(state.name, "master/");
  }
  EXPECT_GT(tens, 0);
  EXPECT_EQ(large, 4);  // a parameter, its master and two moments
  EXPECT_GT(masters, 0);
  for (const Flags& layout : Layouts()) {
    SCOPED_TRACE(absl::StrCat(layout.front(), " ", layout.back()));
    const auto loaded =
        Loaded(With(With(flags, layout), {"--steps=8", "--out=" + run_.Path("saved")}));
    EXPECT_EQ(loaded.size(), saved.record().states.size());
    for (const auto& [name, values] : loaded) {
      ASSERT_OK_AND_ASSIGN(const HostTensor expected, saved.Read(name));
      EXPECT_TRUE(values == expected) << name;
    }
  }
}

// The order of the data goes on, and so do the losses of steps 6 to 8.
TEST_F(C2Test, EveryLayoutGoesOn) {
  const Flags flags = {"--global_batch=24", "--schedule=constant"};
  SaveFive(flags, "cut");
  const TinyResult whole = run_.Train(
      With(flags, {"--steps=8", "--ranks=4", "--zero=1", "--metrics=" + run_.Path("whole.jsonl")}));
  ASSERT_OK(whole.status);
  const std::vector<double> expected = Losses(whole);
  for (size_t i = 0; i < Layouts().size(); ++i) {
    const Flags& layout = Layouts()[i];
    SCOPED_TRACE(absl::StrCat(layout.front(), " ", layout.back()));
    const std::string copy = run_.Path(absl::StrCat("cut-", i));
    ASSERT_EQ(std::system(absl::StrCat("cp -r ", run_.Path("cut"), " ", copy, " && cp ",
                                       run_.Path("cut.jsonl"), " ", copy, ".jsonl")
                              .c_str()),
              0);
    const TinyResult rest = run_.Train(
        With(With(flags, layout), {"--steps=8", "--out=" + copy, "--metrics=" + copy + ".jsonl"}));
    ASSERT_OK(rest.status);
    EXPECT_THAT(rest.log, HasSubstr("goes on with step 6 of 8"));
    const std::vector<double> losses = Losses(rest);
    ASSERT_EQ(losses.size(), 8u);
    for (size_t k = 0; k < 8; ++k) {
      EXPECT_LE(std::abs(losses[k] - expected[k]), 1e-5 * expected[k]) << "step " << k + 1;
    }
  }
}

// ---- C3: a checkpoint of step 10, a save of step 20 that goes wrong.

class C3Test : public ::testing::Test {
 protected:
  C3Test() : run_("c3_ranks"), out_(run_.Path("out")) {}

  // Trains until the save of step 20 begins, with `view` as the file system of rank 1 or of all, so
  // that the view counts what comes before.
  void CountUntilSave(FaultyFileSystem& view, bool all) {
    const TinyResult result = Train([&](int rank) {
      TinyRun::RankSetup setup;
      if (all || rank == 1) setup.files = &view;
      setup.hooks.after_update = [](int64_t step, Session&) {
        return step == 20 ? absl::CancelledError("far enough") : absl::OkStatus();
      };
      return setup;
    });
    EXPECT_THAT(std::string(result.status.message()), HasSubstr("far enough"));
    EXPECT_OK(RealFileSystem().RemoveTree(out_));
  }

  TinyResult Train(const std::function<TinyRun::RankSetup(int)>& setup,
                   const Flags& more = {}) const {
    return run_.TrainRanks(With({"--steps=30", "--save_every=10", "--keep=9", "--ranks=2",
                                 "--global_batch=2", "--zero=1", "--out=" + out_},
                                more),
                           setup);
  }

  std::string Step(int64_t step) const { return CheckpointPath(CheckpointFolder(out_), step); }

  static Contents FilesOf(const std::string& folder) {
    Contents contents;
    const auto names = RealFileSystem().List(folder);
    EXPECT_OK(names);
    for (const std::string& name : *names) {
      contents[name] = *RealFileSystem().ReadFile(JoinPath(folder, name));
    }
    return contents;
  }

  std::vector<std::string> Steps() const {
    auto names = RealFileSystem().List(CheckpointFolder(out_));
    EXPECT_OK(names);
    std::erase_if(*names, [](const std::string& n) { return !absl::StartsWith(n, "step-"); });
    return *std::move(names);
  }

  TinyRun run_;
  const std::string out_;
};

// No space left for rank 1 alone: all ranks go on, the checkpoint of step 10 keeps its bits, that
// of step 20 is nowhere, and step 30 is saved.
TEST_F(C3Test, FullDiskOnOneRank) {
  FaultyFileSystem counting(RealFileSystem());
  CountUntilSave(counting, /*all=*/false);
  for (int64_t operation = counting.operations(); operation < counting.operations() + 4;
       ++operation) {
    SCOPED_TRACE(operation - counting.operations());
    ASSERT_OK(RealFileSystem().RemoveTree(out_));
    FaultyFileSystem full(RealFileSystem(),
                          {.fail_operation = operation,
                           .failure = absl::ResourceExhaustedError("no space left on device")});
    Contents ten;
    const TinyResult result = Train([&](int rank) {
      TinyRun::RankSetup setup;
      if (rank == 1) setup.files = &full;
      if (rank == 0) {
        setup.hooks.after_update = [&](int64_t step, Session&) {
          if (step == 20) ten = FilesOf(Step(10));
          return absl::OkStatus();
        };
      }
      return setup;
    });
    ASSERT_OK(result.status);
    EXPECT_THAT(result.log, AllOf(HasSubstr("step 20 is not saved, training goes on: rank 1: "),
                                  HasSubstr("no space left"), HasSubstr("newest checkpoint: "),
                                  HasSubstr("step-10")));
    EXPECT_THAT(Steps(), ElementsAre("step-10", "step-30"));
    EXPECT_FALSE(ten.empty());
    EXPECT_EQ(FilesOf(Step(10)), ten);
  }
}

// The job dies in the save of step 20, after so many of its bytes: the next one says what it passes
// over, goes on with step 11 and ends as if nothing had happened.
TEST_F(C3Test, KilledWhileSaving) {
  const auto plain = [](int) { return TinyRun::RankSetup(); };
  const TinyResult expected = Train(plain);
  ASSERT_OK(expected.status);
  int64_t values = 0;  // bytes of the files of states: what follows is the manifest
  for (const auto& [name, contents] : FilesOf(Step(20))) {
    if (absl::EndsWith(name, ".safetensors")) values += std::ssize(contents);
  }
  ASSERT_OK(RealFileSystem().RemoveTree(out_));
  FaultyFileSystem counting(RealFileSystem());
  CountUntilSave(counting, /*all=*/true);
  int passed_over = 0;
  for (int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{4096}, values}) {
    SCOPED_TRACE(bytes);
    ASSERT_OK(RealFileSystem().RemoveTree(out_));
    FaultyFileSystem dying(RealFileSystem(), {.kill_after_bytes = counting.bytes() + bytes});
    Contents ten;
    const TinyResult killed = Train([&](int rank) {
      TinyRun::RankSetup setup;
      setup.files = &dying;
      if (rank == 0) {
        setup.hooks.after_update = [&](int64_t step, Session&) {
          if (step == 20) ten = FilesOf(Step(10));
          return absl::OkStatus();
        };
      }
      return setup;
    });
    EXPECT_FALSE(killed.status.ok());
    const TinyResult resumed = Train(plain);
    ASSERT_OK(resumed.status);
    EXPECT_THAT(resumed.log, AllOf(HasSubstr("resumes from "), HasSubstr("step-10"),
                                   HasSubstr("goes on with step 11 of 30")));
    passed_over += absl::StrContains(resumed.log, "step-20.tmp is passed over");
    EXPECT_EQ(FilesOf(Step(10)), ten);
    EXPECT_EQ(StateDifference(resumed.states, expected.states), "");
  }
  EXPECT_GE(passed_over, 3);
}

}  // namespace
}  // namespace colossus
