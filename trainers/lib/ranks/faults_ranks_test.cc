// Faults on one of many ranks: field cases D1, E5 and H4, and a disk that is full for one (C3).
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/testing/faulty_file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "parallel/state_share.h"
#include "tensor/exec/program.h"
#include "trainers/lib/run/session.h"
#include "trainers/lib/testing/inject.h"
#include "trainers/lib/testing/tiny_run.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using RankSetup = TinyRun::RankSetup;

// Throws or fails behind the first instruction.
class Fails final : public StepObserver {
 public:
  explicit Fails(bool throws) : throws_(throws) {}
  absl::Status After(size_t) override {
    if (throws_) throw std::runtime_error("thrown on purpose");
    return absl::InternalError("failed on purpose");
  }

 private:
  const bool throws_;
};

// Four ranks that wait for each other in different ways.
std::vector<Flags> FourRanks() {
  return {{"--mesh=data=4"},
          {"--mesh=stage=4", "--micro_batch=1"},
          {"--mesh=stage=2,data=2", "--micro_batch=1", "--schedule=zb-v", "--zero=3"}};
}

// Trains with one rank of them that has hooks of its own.
TinyResult TrainFour(const std::string& name, Flags flags, const Flags& layout,
                     const std::function<RankSetup()>& culprit) {
  TinyRun run(name);
  run.WriteModel({{"n_layer", 2}});
  flags.insert(flags.end(), layout.begin(), layout.end());
  flags.push_back("--global_batch=8");
  return run.TrainRanks(flags, [&](int rank) { return rank == 2 ? culprit() : RankSetup(); });
}

TEST(FaultsRanksTest, D1_OneRankFailsInAnUpdate) {
  for (const Flags& layout : FourRanks()) {
    for (const bool throws : {false, true}) {
      SCOPED_TRACE(layout[0]);
      const TinyResult result = TrainFour("d1_update", {"--steps=5"}, layout, [&] {
        RankSetup setup;
        setup.hooks.observer = [=](int64_t step, Program&) -> std::unique_ptr<StepObserver> {
          return step == 3 ? std::make_unique<Fails>(throws) : nullptr;
        };
        return setup;
      });
      EXPECT_FALSE(result.status.ok());
      EXPECT_THAT(std::string(result.status.message()),
                  AllOf(HasSubstr("rank 2 failed at step 3 in phase"), HasSubstr("on purpose")));
    }
  }
}

// In the data loader, by an error and by an exception.
TEST(FaultsRanksTest, D1_OneRankFailsToLoad) {
  for (const Flags& layout : FourRanks()) {
    for (const bool throws : {false, true}) {
      SCOPED_TRACE(layout[0]);
      const TinyResult result = TrainFour("d1_load", {"--steps=5"}, layout, [&] {
        RankSetup setup;
        setup.hooks.before_data = [=](int64_t step) -> absl::Status {
          if (step != 3) return absl::OkStatus();
          if (throws) throw std::runtime_error("a bad row");
          return absl::DataLossError("a broken shard");
        };
        return setup;
      });
      EXPECT_FALSE(result.status.ok());
      EXPECT_THAT(std::string(result.status.message()),
                  AllOf(HasSubstr("rank 2 failed at step 3 in phase data"),
                        HasSubstr(throws ? "a bad row" : "a broken shard")));
    }
  }
}

// A rank that cannot save tells the others; the run goes on, and older checkpoints stay.
TEST(FaultsRanksTest, D1_C3_OneRankCannotSave) {
  for (const Flags& layout : FourRanks()) {
    SCOPED_TRACE(layout[0]);
    FaultyFileSystem full(RealFileSystem(), {.disk_bytes = 0});
    const TinyResult result = TrainFour(
        "d1_save",
        {"--steps=4", "--save_every=1", "--out=" + TinyRun("d1_save_out").Path("out"), "--keep=9"},
        layout, [&] {
          RankSetup setup;
          setup.files = &full;
          return setup;
        });
    // The last save must succeed.
    EXPECT_THAT(result.status, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("rank 2")));
    EXPECT_THAT(result.log, AllOf(HasSubstr("is not saved, training goes on: rank 2: "),
                                  HasSubstr("newest checkpoint: none")));
  }
}

TEST(FaultsRanksTest, E5_EveryStepOverflowsOnOneRank) {
  TinyRun run("e5_ranks");
  std::set<int64_t> all;
  for (int64_t step = 1; step <= 30; ++step) all.insert(step);
  const TinyResult result = run.TrainRanks({"--steps=30", "--precision=fp16", "--ranks=2",
                                            "--global_batch=4", "--metrics=" + run.Path("metrics")},
                                           [&](int rank) {
                                             RankSetup setup;
                                             if (rank == 1) setup.hooks = InjectAt(all, "h.0.grad");
                                             return setup;
                                           });
  EXPECT_THAT(result.status, StatusIs(absl::StatusCode::kResourceExhausted,
                                      AllOf(HasSubstr("step 17"), HasSubstr("17 in a row"))));
  std::vector<double> scales, expected;
  for (const nlohmann::json& line : result.metrics) scales.push_back(line.at("loss_scale"));
  for (double scale = 65536; scale >= 1; scale /= 2) expected.push_back(scale);
  EXPECT_EQ(scales, expected);
}

// H4: an infinity in layer 1 on rank 1 during step 6, checkpoints every 2 steps, keep 2.
class H4Test : public ::testing::Test {
 protected:
  H4Test() : run_("h4_ranks") {
    run_.WriteModel({{"n_layer", 2}});
    run_.WriteText(12);
  }

  // `look`: after every update on every rank.
  using Look = std::function<void(int rank, int64_t step, Session&)>;

  TinyResult Train(const Flags& more, const std::set<int64_t>& steps, const Look& look = nullptr) {
    Flags flags = {"--steps=9",
                   "--save_every=2",
                   "--keep=2",
                   "--mesh=data=2",
                   "--global_batch=4",
                   "--data_order=sequential",
                   "--out=" + run_.Path("out")};
    flags.insert(flags.end(), more.begin(), more.end());
    return run_.TrainRanks(flags, [&](int rank) {
      RankSetup setup;
      if (rank == 1) setup.hooks = InjectAt(steps, "h.1");
      if (look) {
        setup.hooks.after_update = [=](int64_t step, Session& session) {
          look(rank, step, session);
          return absl::OkStatus();
        };
      }
      return setup;
    });
  }

  TinyRun run_;
};

// Every byte of the states that a rank holds.
std::string StateBytes(Session& session) {
  std::string bytes;
  for (const StateHome& home : session.training->states()) {
    const auto values = session.training->program().ReadState(home.info.name);
    EXPECT_OK(values);
    bytes.append(static_cast<const char*>(values->raw()),
                 static_cast<size_t>(values->type().bytes()));
  }
  return bytes;
}

TEST_F(H4Test, DefaultStopsBeforeTheUpdate) {
  for (const char* zero : {"--zero=0", "--zero=1", "--zero=2", "--zero=3"}) {
    SCOPED_TRACE(zero);
    ASSERT_OK(RealFileSystem().RemoveTree(run_.Path("out")));
    const TinyResult result = Train({zero}, {6});
    // 12 rows, 4 an update: the third one of an epoch has rows 8 to 11, the last two on rank 1.
    EXPECT_THAT(std::string(result.status.message()),
                AllOf(HasSubstr("rank 1 failed at step 6"), HasSubstr("on rank 1"),
                      HasSubstr("+Inf in h.1/"), HasSubstr("layer 1, forward"),
                      HasSubstr("rows 10, 11 of the training data"), HasSubstr("step-4")));
    EXPECT_THAT(Checkpoints(run_.Path("out")), ElementsAre("step-2", "step-4"));
  }
}

TEST_F(H4Test, SkipsAtMostTwo) {
  const TinyResult one = Train({"--skip_nonfinite=2", "--metrics=" + run_.Path("m")}, {6});
  ASSERT_OK(one.status);
  int skipped = 0;
  for (const nlohmann::json& line : one.metrics) skipped += !line.at("skipped").is_null();
  EXPECT_EQ(skipped, 1);
  EXPECT_THAT(one.log, HasSubstr("1 of 9 updates were skipped"));
  ASSERT_OK(RealFileSystem().RemoveTree(run_.Path("out")));
  const TinyResult three = Train({"--skip_nonfinite=2"}, {6, 7, 8});
  EXPECT_THAT(std::string(three.status.message()),
              AllOf(HasSubstr("step 8"), HasSubstr("number 3 in a row")));
}

// Parameters and moments are bitwise unchanged by the skipped step on both ranks.
TEST_F(H4Test, ASkippedStepChangesNothing) {
  for (const char* zero : {"--zero=0", "--zero=3"}) {
    SCOPED_TRACE(zero);
    ASSERT_OK(RealFileSystem().RemoveTree(run_.Path("out")));
    std::map<int64_t, std::string> after[2];
    ASSERT_OK(
        Train({zero, "--skip_nonfinite=2"}, {6}, [&](int rank, int64_t step, Session& session) {
          after[rank][step] = StateBytes(session);
        }).status);
    for (std::map<int64_t, std::string>& states : after) {
      EXPECT_EQ(states.at(6), states.at(5));
      EXPECT_NE(states.at(7), states.at(6));
    }
  }
}

// Puts an infinity into the last parameter that the rank holds a part of in a chunk; its name and
// the element of the whole tensor.
absl::Status DamageAParameter(TrainingProgram& training, std::string* text) {
  const StateShare* last = nullptr;
  for (const StateShare& share : training.shares()) {
    if (share.info.role == Role::kParameter && share.piece.count > 5) last = &share;
  }
  if (last == nullptr) return absl::NotFoundError("this rank has no parameter");
  EXPECT_EQ(last->home.substr(0, 6), "chunk/");
  *text = absl::StrCat("+Inf in ", last->info.name, " (state, ",
                       ToString(Type{DType::kF32, last->info.global_dims}), ", element ",
                       last->piece.first + 5, ") on rank 1");
  const float infinity = std::numeric_limits<float>::infinity();
  return training.program().WriteStateBytes(last->home, (last->home_first + 5) * 4, &infinity, 4);
}

// What lies in a chunk has the name of its parameter, not of the chunk.
TEST(FaultsRanksTest, ANonFiniteParameterOfAChunkIsNamed) {
  for (const char* zero : {"--zero=0", "--zero=3"}) {
    SCOPED_TRACE(zero);
    TinyRun run("chunk_state");
    std::string text;
    const TinyResult result =
        run.TrainRanks({"--steps=5", "--ranks=2", "--global_batch=4", zero}, [&](int rank) {
          RankSetup setup;
          if (rank != 1) return setup;
          setup.hooks.after_update = [&](int64_t step, Session& session) {
            return step == 2 ? DamageAParameter(*session.training, &text) : absl::OkStatus();
          };
          return setup;
        });
    EXPECT_THAT(std::string(result.status.message()),
                AllOf(HasSubstr("rank 1 failed at step 3"), HasSubstr(text),
                      HasSubstr("The update before left 'transformer.")));
    EXPECT_FALSE(text.empty());
  }
}

}  // namespace
}  // namespace colossus
