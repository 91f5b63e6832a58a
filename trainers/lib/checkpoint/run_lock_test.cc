#include "trainers/lib/checkpoint/run_lock.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "trainers/lib/answer/convert.h"
#include "trainers/lib/checkpoint/model_source.h"
#include "trainers/lib/testing/tiny_run.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::Status ConvertTo(const std::string& from, const std::string& to) {
  Config config;
  config.trainer = Trainer::kConvert;
  config.options.model.directory = from;
  config.options.run.out = to;
  Log log(nullptr, /*terminal=*/false);
  JobContext context{config, log};
  return Convert(RealFileSystem(), context);
}

// Whatever would write where a run goes on is refused, and the run does not notice.
TEST(RunLockTest, OneRunAFolder) {
  TinyRun run("one_run");
  const std::string out = run.Path("out"), metrics = run.Path("metrics.jsonl");
  const std::vector<std::string> flags = {"--steps=2", "--save_every=1", "--out=" + out,
                                          "--metrics=" + metrics};
  TrainHooks hooks;
  hooks.after_update = [&](int64_t step, Session&) {
    if (step != 2) return absl::OkStatus();
    const TinyResult second = run.Train(flags);
    EXPECT_THAT(second.status,
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("--out=" + out), HasSubstr("in use by another run"),
                               HasSubstr("give another --out"))));
    const std::string other = "--out=" + run.Path("other");
    EXPECT_THAT(run.Train({"--steps=2", other, "--metrics=" + metrics}).status,
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("--metrics=" + metrics), HasSubstr("another run"))));
    for (const std::string& inside : {out + "/model", out + "/checkpoints/new/folder"}) {
      EXPECT_THAT(ConvertTo(out + "/checkpoints/step-1", inside),
                  StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--out=" + inside)));
    }
    EXPECT_OK(CheckOutsideRuns(RealFileSystem(), "--out", out + "/../beside"));
    return absl::OkStatus();
  };
  const TinyResult first = run.Train(flags, RealFileSystem(), hooks);
  ASSERT_OK(first.status);
  EXPECT_EQ(first.metrics.size(), 2);
  EXPECT_OK(run.Train(flags).status);
  EXPECT_OK(ConvertTo(out, out + "/again"));
}

TEST(RunLockTest, CheckpointsStayWhatTheyAre) {
  TinyRun run("in_checkpoint");
  const std::string out = run.Path("out");
  ASSERT_OK(run.Train({"--steps=1", "--out=" + out}).status);
  const std::string step = out + "/checkpoints/step-1";
  for (const std::string& inside : {step, step + "/model"}) {
    EXPECT_THAT(ConvertTo(out, inside),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("--out=" + inside), HasSubstr("the checkpoint"))));
    EXPECT_THAT(run.Train({"--steps=1", "--out=" + inside}).status,
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the checkpoint")));
  }
  // What stands in a checkpoint is removed with it.
  const std::string beside = "--out=" + run.Path("beside");
  for (const std::string& to : {beside, "--out=" + out}) {
    EXPECT_THAT(run.Train({"--steps=2", to, "--metrics=" + step + "/metrics.jsonl"}).status,
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("--metrics=" + step), HasSubstr("the checkpoint"))));
    EXPECT_THAT(
        run.Train({"--steps=2", to, "--profile", "--profile_file=" + step + "/profile.json"})
            .status,
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(HasSubstr("--profile_file=" + step), HasSubstr("the checkpoint"))));
  }
}

// A model in the run's own folder would be read in place of the run's newer checkpoints.
TEST(RunLockTest, NoModelBesideCheckpoints) {
  TinyRun run("beside_checkpoints");
  const std::string out = run.Path("out"), model = out + "/converted";
  ASSERT_OK(run.Train({"--steps=1", "--out=" + out}).status);
  EXPECT_THAT(ConvertTo(out, out),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("--out=" + out + " is the folder of a run"),
                             HasSubstr("give another folder, as --out=" + model))));
  EXPECT_FALSE(RealFileSystem().Exists(out + "/config.json"));
  EXPECT_OK(ConvertTo(out, model));
  // A run may save there after all: then the log says what is read.
  std::string log_text;
  Log log([&](absl::string_view text) { absl::StrAppend(&log_text, text); }, false);
  ASSERT_OK(run.Train({"--steps=1", "--out=" + model}).status);
  ASSERT_OK(ModelSource::Open(RealFileSystem(), model, /*require_tied=*/false, log).status());
  EXPECT_THAT(log_text, HasSubstr("--model=" + model + "/checkpoints/step-N"));
  ASSERT_OK(RealFileSystem().Remove(model + "/config.json"));
  EXPECT_THAT(ConvertTo(out, model), StatusIs(absl::StatusCode::kInvalidArgument,
                                              HasSubstr("already holds a model (model.safetensors)"
                                                        "; give another folder")));
}

TEST(RunLockTest, MetricsAndProfileNeedTwoFiles) {
  TinyRun run("both");
  const std::string file = run.Path("both.json");
  EXPECT_THAT(run.Train({"--steps=1", "--metrics=" + file, "--profile", "--profile_file=" + file})
                  .status,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the file of --metrics")));
}

// A refused run leaves no trace that --resume=never would stumble over.
TEST(RunLockTest, LeavesNothingInTheFolder) {
  TinyRun run("no_trace");
  ASSERT_OK(RealFileSystem().MakeDirs(run.Path("out")));
  const std::vector<std::string> flags = {"--steps=1", "--resume=never",
                                          "--out=" + run.Path("out")};
  Log log(nullptr, /*terminal=*/false);
  {
    ASSERT_OK_AND_ASSIGN(const auto lock,
                         LockForRun(RealFileSystem(), "--out", run.Path("out"), log));
    EXPECT_FALSE(run.Train(flags).status.ok());
  }
  EXPECT_OK(run.Train(flags).status);
}

}  // namespace
}  // namespace colossus
