#include "trainers/lib/run/train.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/file_system.h"
#include "base/testing/faulty_file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "trainers/lib/testing/tiny_run.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(TrainTest, SaysWhatItWillDo) {
  TinyRun run("says");
  const TinyResult result = run.Train({"--steps=1", "--micro_batch=2", "--global_batch=4"});
  ASSERT_OK(result.status);
  EXPECT_EQ(result.exit_code, 0);
  // 257 x 16 and 16 x 16 tables, 16 x 48, 16 x 16, 16 x 64 and 64 x 16 products; E4.
  EXPECT_THAT(result.log,
              AllOf(HasSubstr("nothing is saved"),
                    HasSubstr("batch: global batch 4 = micro-batch 2 x accumulation 2"),
                    HasSubstr("weight decay 0.1 on 6 tensors (7440 elements): matrices, embeddings "
                              "among them; none on 10 tensors (240 elements)"),
                    HasSubstr("memory: "), HasSubstr("; largest: "),
                    HasSubstr("flop a token = 6 x 7184 matmul parameters + 6 x 1 layers x 8 "
                              "tokens x 16 hidden"),
                    HasSubstr("config: [optimizer] name = \"adamw\"; learning_rate = 0.01")));
}

TEST(TrainTest, LearnsAndValidates) {
  TinyRun run("learns");
  run.WriteText(40);
  const TinyResult result =
      run.Train({"--steps=60", "--global_batch=8", "--validation_share=0.2", "--validate_every=20",
                 "--metrics=" + run.Path("metrics.jsonl")});
  ASSERT_OK(result.status);
  ASSERT_EQ(result.metrics.size(), 60);
  EXPECT_LT(result.metrics[59]["loss"], 0.7 * result.metrics[0]["loss"].get<double>());
  for (const nlohmann::json& line : result.metrics) {
    const int64_t step = line["step"];
    EXPECT_EQ(line["validation_loss"].is_null(), step % 20 != 0) << step;
    EXPECT_TRUE(line["skipped"].is_null()) << step;
  }
  // Letters cost ln(x) nats a token and one byte each.
  const nlohmann::json& last = result.metrics[59];
  EXPECT_GT(last["validation_bits_per_byte"].get<double>(),
            last["validation_loss"].get<double>());
}

// Validation reads the parameters where they are: it takes no memory of its own where training
// needs more, and changes no bit.
TEST(TrainTest, ValidationKeepsNoCopy) {
  TinyRun run("no_copy");
  run.WriteText(40);
  const std::vector<std::string> flags = {"--steps=3", "--micro_batch=4", "--dropout=0.1",
                                          "--validation_share=0.2",
                                          "--metrics=" + run.Path("metrics.jsonl")};
  const auto with = [&](const char* more) {
    std::vector<std::string> all = flags;
    all.push_back(more);
    return run.Train(all);
  };
  const TinyResult often = with("--validate_every=1"), once = with("--validate_every=0");
  std::vector<std::string> never = flags;
  never.erase(never.begin() + 3);
  ASSERT_OK(often.status);
  ASSERT_OK(once.status);
  EXPECT_EQ(StateDifference(often.states, once.states), "");
  EXPECT_EQ(often.metrics[2]["validation_loss"], once.metrics[2]["validation_loss"]);
  const TinyResult without = run.Train(never);
  ASSERT_OK(without.status);
  EXPECT_TRUE(without.metrics[2]["validation_loss"].is_null());
  EXPECT_EQ(often.metrics[0]["device_peak_bytes"], without.metrics[0]["device_peak_bytes"]);
}

// A loss that is no number ends the run: parameters as they were, newest checkpoint kept.
TEST(TrainTest, NonFiniteLossStops) {
  TinyRun run("not_finite");
  const std::string out = run.Path("out");
  TrainHooks hooks;
  hooks.after_update = [&](int64_t step, Session& session) -> absl::Status {
    if (step != 3) return absl::OkStatus();
    HostTensor bias(Type{DType::kF32, {16}});
    bias.Set(3, std::nan(""));
    return session.training->program().WriteState("transformer.ln_f.bias", bias);
  };
  const TinyResult result = run.Train({"--steps=9", "--save_every=2", "--out=" + out,
                                       "--metrics=" + run.Path("metrics.jsonl")},
                                      RealFileSystem(), hooks);
  EXPECT_THAT(result.status,
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("step 4"), HasSubstr("not finite"), HasSubstr("step-2"))));
  ASSERT_EQ(result.metrics.size(), 4);
  EXPECT_TRUE(result.metrics[3]["loss"].is_null());
  EXPECT_THAT(result.metrics[3]["skipped"].get<std::string>(), HasSubstr("not finite"));
  EXPECT_TRUE(RealFileSystem().Exists(out + "/checkpoints/step-2"));
  EXPECT_FALSE(RealFileSystem().Exists(out + "/checkpoints/step-4"));
  EXPECT_FALSE(RealFileSystem().Exists(out + "/model"));
}

// What can never be saved is noticed before the first update, not after the last.
TEST(TrainTest, UnwritableOutIsRefused) {
  TinyRun run("unwritable");
  ASSERT_OK(RealFileSystem().WriteFileAtomically(run.Path("file"), "x"));
  for (const std::string& out : {run.Path("file/out"), std::string("/proc/out")}) {
    int64_t updates = 0;
    TrainHooks hooks;
    hooks.after_update = [&](int64_t, Session&) {
      ++updates;
      return absl::OkStatus();
    };
    const TinyResult result = run.Train({"--steps=2", "--out=" + out}, RealFileSystem(), hooks);
    EXPECT_THAT(
        std::string(result.status.message()),
        AllOf(HasSubstr("nothing can be saved in --out=" + out), HasSubstr("give a folder")))
        << out;
    EXPECT_EQ(updates, 0) << out;
  }
}

TEST(TrainTest, AModelThatCannotBeWrittenIsRefused) {
  TinyRun run("no_model");
  const std::string out = run.Path("out");
  ASSERT_OK(RealFileSystem().MakeDirs(out));
  ASSERT_OK(RealFileSystem().WriteFileAtomically(out + "/model", "x"));
  EXPECT_THAT(std::string(run.Train({"--steps=1", "--out=" + out}).status.message()),
              AllOf(HasSubstr("nothing can be saved in --out=" + out),
                    HasSubstr(out + "/model, where the trained model goes, is no folder")));
}

// More rows than a number holds are no other number of rows.
TEST(TrainTest, RowsThatCannotBeCountedAreRefused) {
  TinyRun run("rows");
  EXPECT_THAT(
      run.Train({"--steps=1", "--micro_batch=1000000000000", "--micro_batches=1000000000000"})
          .status,
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("batch.micro_batches is 1000000000000 and batch.micro_batch "
                         "1000000000000: more rows than can be counted")));
}

// A metrics file that takes no more ends the run, but nothing that was computed is lost.
TEST(TrainTest, FullMetricsFileSavesFirst) {
  TinyRun run("full_metrics");
  const std::string out = run.Path("out");
  // Room for the first save; the second line of the metrics then finds the disk full.
  int64_t operations = 0;
  const std::vector<std::string> flags = {"--steps=3", "--save_every=1", "--out=" + out,
                                          "--metrics=" + run.Path("metrics.jsonl")};
  FaultyFileSystem counting(RealFileSystem());
  TrainHooks hooks;
  hooks.after_update = [&](int64_t step, Session&) {
    if (step == 2) operations = counting.operations();
    return absl::OkStatus();
  };
  ASSERT_OK(run.Train(flags, counting, hooks).status);
  ASSERT_OK(RealFileSystem().RemoveTree(out));
  ASSERT_OK(RealFileSystem().Remove(run.Path("metrics.jsonl")));  // the same operations again
  FaultyFileSystem full(RealFileSystem(),
                        {.fail_operation = operations,
                         .failure = absl::ResourceExhaustedError("no space left on device")});
  const TinyResult result = run.Train(flags, full);
  EXPECT_THAT(result.status, StatusIs(absl::StatusCode::kResourceExhausted,
                                      AllOf(HasSubstr("no space left"), HasSubstr("after step 2"),
                                            HasSubstr("newest checkpoint: " + out))));
  EXPECT_TRUE(RealFileSystem().Exists(out + "/checkpoints/step-2"));
}

// The null device predicts: the same memory as the host, time, no loss, no files.
TEST(TrainTest, NullDevicePredicts) {
  TinyRun run("null");
  const std::vector<std::string> flags = {"--steps=2", "--metrics=" + run.Path("metrics.jsonl")};
  const TinyResult host = run.Train(flags);
  std::vector<std::string> null_flags = flags;
  null_flags.insert(null_flags.end(), {"--device=null", "--out=" + run.Path("out")});
  const TinyResult null = run.Train(null_flags);
  ASSERT_OK(null.status);
  ASSERT_EQ(null.metrics.size(), 2);
  EXPECT_EQ(null.metrics[1]["device_peak_bytes"], host.metrics[1]["device_peak_bytes"]);
  // Differences of one virtual clock: a few roundings of 2^-53 of its time.
  EXPECT_NEAR(null.metrics[0]["step_seconds"], null.metrics[1]["step_seconds"], 1e-15);
  EXPECT_GT(null.metrics[0]["step_seconds"], 0);
  EXPECT_TRUE(null.metrics[0]["loss"].is_null());
  EXPECT_THAT(null.log, HasSubstr("losses and norms are not computed"));
  EXPECT_FALSE(RealFileSystem().Exists(run.Path("out")));
}

// The capped device computes the same bits as the host.
TEST(TrainTest, CappedDeviceEqualsHost) {
  TinyRun run("capped");
  const std::vector<std::string> flags = {"--steps=3", "--micro_batch=2", "--global_batch=4"};
  const TinyResult host = run.Train(flags);
  std::vector<std::string> capped_flags = flags;
  capped_flags.insert(capped_flags.end(), {"--device=capped", "--device_memory=100MB"});
  const TinyResult capped = run.Train(capped_flags);
  ASSERT_OK(capped.status);
  EXPECT_EQ(StateDifference(capped.states, host.states), "");
}

// Protects: a profile that cannot be written does not cost the trained model.
TEST(TrainTest, ModelIsWrittenWithoutTheProfile) {
  TinyRun run("no_profile");
  const std::string out = run.Path("out"), profile = run.Path("profile.json");
  TrainHooks hooks;
  hooks.after_update = [&](int64_t, Session&) {
    EXPECT_FALSE(RealFileSystem().Exists(profile)) << "written at the end";
    return RealFileSystem().MakeDirs(profile);
  };
  const TinyResult result =
      run.Train({"--steps=1", "--profile", "--profile_file=" + profile, "--out=" + out},
                RealFileSystem(), hooks);
  EXPECT_FALSE(result.status.ok());
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("profile.json"));
  EXPECT_TRUE(RealFileSystem().Exists(out + "/model/config.json"));
}

// What cannot run is refused before the job begins, with the key or file at fault.
TEST(TrainTest, Refusals) {
  TinyRun run("refusals");
  struct Row {
    std::vector<std::string> flags;
    const char* message;
  };
  const Row kTable[] = {
      {{"--steps=1", "--sequence_length=17"}, "data.sequence_length is 17"},
      {{"--steps=1", "--data=" + run.Path("missing.txt")}, "missing.txt"},
      {{"--steps=1", "--model=" + run.Path("missing")}, "missing"},
      {{"--epochs=1", "--global_batch=4", "--warmup_steps=9"}, "warmup_steps is 9"},
      {{"--steps=1", "--micro_batch=3", "--global_batch=8"}, "batch.global_batch"},
      {{"--steps=1", "--device=capped", "--device_memory=50000"}, "50000"},
      {{"--steps=1", "--metrics=" + run.Path("no/such/folder.jsonl")}, "no/such"},
      {{"--steps=1", "--profile", "--profile_file=/dev/null"}, "a device or pipe"},
  };
  for (const Row& row : kTable) {
    const TinyResult result = run.Train(row.flags);
    EXPECT_FALSE(result.status.ok()) << row.message;
    EXPECT_THAT(std::string(result.status.message()), HasSubstr(row.message));
    EXPECT_THAT(result.log, Not(HasSubstr("matmul peak")));
  }
}

}  // namespace
}  // namespace colossus
