// Faults on one of many ranks: field cases D1, E5 and H4, and a disk that is full for one (C3).
#include <cstdint>
#include <limits>
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
#include "tensor/exec/program.h"
#include "trainers/lib/testing/inject.h"
#include "trainers/lib/testing/tiny_run.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Flags = std::vector<std::string>;
using RankSetup = TinyRun::RankSetup;

// The names in the folder of checkpoints but the tokenizer's.
std::vector<std::string> Checkpoints(const std::string& out) {
  absl::StatusOr<std::vector<std::string>> names = RealFileSystem().List(out + "/checkpoints");
  EXPECT_OK(names);
  if (!names.ok()) return {};
  std::erase_if(*names, [](const std::string& n) { return absl::StartsWith(n, "tokenizer"); });
  return *std::move(names);
}

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

TEST(FaultsRanksTest, D1_OneRankFailsInAnUpdate) {
  for (const bool throws : {false, true}) {
    TinyRun run("d1_update");
    const TinyResult result =
        run.TrainRanks({"--steps=5", "--ranks=4", "--global_batch=4"}, [&](int rank) {
          RankSetup setup;
          if (rank != 2) return setup;
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

// A rank that cannot save tells the others; the run goes on, and older checkpoints stay.
TEST(FaultsRanksTest, D1_C3_OneRankCannotSave) {
  TinyRun run("d1_save");
  const std::string out = run.Path("out");
  FaultyFileSystem full(RealFileSystem(), {.disk_bytes = 0});
  const TinyResult result = run.TrainRanks(
      {"--steps=4", "--save_every=1", "--ranks=4", "--global_batch=4", "--out=" + out, "--keep=9"},
      [&](int rank) {
        RankSetup setup;
        if (rank == 2) setup.files = &full;
        return setup;
      });
  // The last save must succeed.
  EXPECT_THAT(result.status, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("rank 2")));
  EXPECT_THAT(result.log, AllOf(HasSubstr("is not saved, training goes on: rank 2: "),
                                HasSubstr("newest checkpoint: none")));
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
  H4Test() : run_("h4_ranks") { run_.WriteModel({{"n_layer", 2}}); }

  TinyResult Train(const Flags& more, const std::set<int64_t>& steps) {
    Flags flags = {"--steps=9",     "--save_every=2",   "--keep=2",
                   "--mesh=data=2", "--global_batch=4", "--out=" + run_.Path("out")};
    flags.insert(flags.end(), more.begin(), more.end());
    return run_.TrainRanks(flags, [&](int rank) {
      RankSetup setup;
      if (rank == 1) setup.hooks = InjectAt(steps, "h.1");
      return setup;
    });
  }

  TinyRun run_;
};

TEST_F(H4Test, DefaultStopsBeforeTheUpdate) {
  const TinyResult result = Train({}, {6});
  EXPECT_THAT(std::string(result.status.message()),
              AllOf(HasSubstr("step 6"), HasSubstr("on rank 1"), HasSubstr("+Inf in h.1/"),
                    HasSubstr("layer 1, forward"), HasSubstr("rows "), HasSubstr("step-4")));
  EXPECT_THAT(Checkpoints(run_.Path("out")), ElementsAre("step-2", "step-4"));
}

TEST_F(H4Test, SkipsAtMostTwo) {
  const TinyResult one = Train({"--skip_nonfinite=2", "--metrics=" + run_.Path("m")}, {6});
  ASSERT_OK(one.status);
  int skipped = 0;
  for (const nlohmann::json& line : one.metrics) skipped += !line.at("skipped").is_null();
  EXPECT_EQ(skipped, 1);
  ASSERT_OK(RealFileSystem().RemoveTree(run_.Path("out")));
  const TinyResult three = Train({"--skip_nonfinite=2"}, {6, 7, 8});
  EXPECT_THAT(std::string(three.status.message()),
              AllOf(HasSubstr("step 8"), HasSubstr("number 3 in a row")));
}

}  // namespace
}  // namespace colossus
