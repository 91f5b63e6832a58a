#include "trainers/lib/config/plan_file.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "trainers/lib/config/config.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

std::map<std::string, std::string> KeysOf(const std::string& text) {
  const absl::StatusOr<std::vector<Assignment>> values = ParsePlanFile("p.toml", text);
  EXPECT_OK(values);
  std::map<std::string, std::string> keys;
  if (!values.ok()) return keys;
  for (const Assignment& value : *values) keys[value.key->name] = value.text;
  return keys;
}

TEST(PlanFileTest, KeysThatMeanTheSame) {
  EXPECT_THAT(KeysOf(""), IsEmpty());
  EXPECT_THAT(
      KeysOf(
          "[plan]\nmicro_batch = 2\nmicro_batches = 4\nsequence_length = 64\n"
          "compute = \"bf16\"\ngradient = \"fp32\"\nrecompute = \"block\"\n"
          "accumulation_order = \"vertical\"\n"
          "packed = true\ndropout = false\nzero = 2\nsequence = \"all_to_all\"\nnorms = \"auto\"\n"
          "[[stage]]\nranks = \"0-7\"\nmesh = \"data=2,sequence=4\"\n"),
      UnorderedElementsAre(Pair("batch.micro_batch", "2"), Pair("batch.global_batch", "16"),
                           Pair("data.sequence_length", "64"), Pair("precision.compute", "bf16"),
                           Pair("precision.gradient", "fp32"), Pair("plan.recompute", "block"),
                           Pair("plan.accumulation_order", "vertical"),
                           Pair("data.packing", "borders"), Pair("model.dropout", "0"),
                           Pair("plan.mesh", "data=2,sequence=4"), Pair("plan.zero", "2"),
                           Pair("plan.sequence", "all_to_all")));
}

TEST(PlanFileTest, Stages) {
  EXPECT_THAT(
      KeysOf("[plan]\nschedule = \"zb-v\"\nchunks = 2\nborders = [\"h.0\", \"h.1\", \"head\"]\n"
             "[[stage]]\nranks = \"0-1\"\nmesh = \"data=2\"\n"
             "[[stage]]\nranks = \"2-3\"\nmesh = \"data=2\"\n"),
      UnorderedElementsAre(Pair("plan.mesh", "stage=2,data=2"), Pair("plan.schedule", "zb-v"),
                           Pair("plan.chunks", "2"), Pair("plan.borders", "h.0,h.1,head")));
}

TEST(PlanFileTest, ChunksAndOverrides) {
  EXPECT_THAT(KeysOf("[plan]\nchunk_elements = 4096\n[[stage]]\nranks = \"0-3\"\n"
                     "mesh = \"data=2,tensor=2\"\n[[override]]\nstates = \"*.c_fc.weight\"\n"
                     "dims = [[\"data\"], [\"tensor\"]]\n[[override]]\nstates = \"wte.*\"\n"),
              UnorderedElementsAre(Pair("plan.mesh", "data=2,tensor=2"),
                                   Pair("plan.chunk_elements", "4096"),
                                   Pair("plan.overrides", "*.c_fc.weight=data/tensor;wte.*=")));
  // A whole plan prints the default of what is of no use on one rank.
  EXPECT_THAT(KeysOf("[plan]\nchunk_elements = 67108864\n"), IsEmpty());
}

// What has no effect is left out only where it is the default; the rest is for others to refuse.
TEST(PlanFileTest, KeysWithoutEffect) {
  EXPECT_THAT(KeysOf("[plan]\nsequence = \"ring\"\nnorms = \"auto\"\ntensor_layout = \"1d\"\n"
                     "schedule = \"1f1b\"\nchunks = 0\nborders = []\n"),
              IsEmpty());
  EXPECT_THAT(KeysOf("[plan]\nsequence = \"ring\"\nnorms = \"auto\"\n[[stage]]\nranks = \"0-1\"\n"
                     "mesh = \"data=2,tensor=1,sequence=1\"\n"),
              UnorderedElementsAre(Pair("plan.mesh", "data=2,tensor=1,sequence=1")));
  EXPECT_THAT(
      KeysOf("[plan]\nsequence = \"all_to_all\"\nnorms = \"sharded\"\nchunk_elements = 5\n"
             "tensor_layout = \"2d\"\nschedule = \"gpipe\"\nchunks = 2\nborders = [\"h.1\"]\n"),
      UnorderedElementsAre(Pair("plan.sequence", "all_to_all"), Pair("plan.norms", "sharded"),
                           Pair("plan.chunk_elements", "5"), Pair("plan.tensor_layout", "2d"),
                           Pair("plan.schedule", "gpipe"), Pair("plan.chunks", "2"),
                           Pair("plan.borders", "h.1")));
}

TEST(PlanFileTest, RowsOfAnUpdate) {
  const auto message = [](const char* rows) {
    return std::string(
        ParsePlanFile("p.toml", absl::StrCat("[plan]\n", rows)).status().message());
  };
  EXPECT_EQ(message("micro_batch = 2\nmicro_batches = 0\n"),
            "p.toml:3: micro_batches must be at least 1");
  EXPECT_EQ(message("micro_batch = 0\nmicro_batches = 2\n"),
            "p.toml:2: micro_batch must be at least 1");
  // The product is 4 once it has run over.
  EXPECT_THAT(message("micro_batch = 4\nmicro_batches = 4611686018427387905\n"),
              HasSubstr("p.toml:3: micro_batches of micro_batch rows are more than "));
}

TEST(PlanFileTest, Placement) {
  EXPECT_THAT(KeysOf("[plan]\nplacement = \"cpu\"\n"),
              UnorderedElementsAre(Pair("plan.placement", "cpu")));
  EXPECT_THAT(KeysOf("[plan]\nplacement = \"none\"\n"), IsEmpty());
}

// What a plan says of packing holds against the configuration, and says nothing of rows without
// text.
TEST(PlanFileTest, PackingEitherWay) {
  FileSystem& files = RealFileSystem();
  const std::string plan = JoinPath(::testing::TempDir(), "packed.toml");
  const std::string config = JoinPath(::testing::TempDir(), "borders.toml");
  ASSERT_OK(files.WriteFileAtomically(plan, "[plan]\npacked = false\n"));
  ASSERT_OK(files.WriteFileAtomically(config, "[data]\npacking = \"borders\"\n"));
  std::vector<std::string> flags = {"--preset=gpt2-tiny", "--data=synthetic", "--steps=1",
                                    absl::StrCat("--plan=", plan)};
  EXPECT_OK(ReadConfig(Trainer::kPretrain, flags, files));
  flags[1] = "--data=some.txt";
  flags.push_back(absl::StrCat("--config=", config));
  EXPECT_THAT(ReadConfig(Trainer::kPretrain, flags, files),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("data.packing is given twice"), HasSubstr("packed.toml:2"),
                             HasSubstr("borders.toml:2"))));
  ASSERT_OK(files.WriteFileAtomically(plan, "[plan]\npacked = true\n"));
  flags = {"--preset=gpt2-tiny", "--data=synthetic", "--steps=1", absl::StrCat("--plan=", plan)};
  EXPECT_THAT(ReadConfig(Trainer::kPretrain, flags, files),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has no effect when")));
}

// Keys of an axis are those of any stage.
TEST(PlanFileTest, StagesOfDifferentMeshes) {
  EXPECT_THAT(KeysOf("[plan]\nmicro_batch = 2\nmicro_batches = 3\nnorms = \"replicated\"\n"
                     "[[stage]]\nranks = \"0-1\"\nmesh = \"data=2\"\n"
                     "[[stage]]\nranks = \"2\"\n"
                     "[[stage]]\nranks = \"3-4\"\nmesh = \"tensor=2\"\n"),
              UnorderedElementsAre(Pair("plan.mesh", "stage:data=2/stage:/stage:tensor=2"),
                                   Pair("batch.micro_batch", "2"), Pair("batch.global_batch", "12"),
                                   Pair("plan.norms", "replicated")));
  EXPECT_THAT(KeysOf("[plan]\nchunk_elements = 9\n[[stage]]\nranks = \"0\"\n"
                     "[[stage]]\nranks = \"1-2\"\nmesh = \"data=2\"\n"),
              UnorderedElementsAre(Pair("plan.mesh", "stage:/stage:data=2"),
                                   Pair("plan.chunk_elements", "9")));
}

TEST(PlanFileTest, Refusals) {
  const std::pair<const char*, const char*> kTable[] = {
      {"[[stage]]\nranks = \"0-1\"\nmesh = \"data=2\"\n[[stage]]\nranks = \"2\"\n"
       "mesh = \"data=2\"\n",
       "p.toml:3: the mesh data=2 is of 2 ranks, but the stage has 1"},
      {"[[stage]]\n[[stage]]\n", "p.toml:1: ranks are numbered from 0 on, stage by stage"},
      {"[[stage]]\nranks = \"1-2\"\nmesh = \"data=2\"\n", "p.toml:2: ranks are numbered from 0 on"},
      {"[[stage]]\nranks = \"0-2\"\nmesh = \"data=2\"\n",
       "p.toml:3: the mesh data=2 is of 2 ranks, but the stage has 3"},
      {"[plan]\nmicro_batches = 2\n", "p.toml:2: micro_batches needs micro_batch"},
      {"[plan]\ncompute = \"fp64\"\n", "p.toml:2: a run computes in fp32, bf16 or fp16"},
      {"[plan]\ngradient = \"bf16\"\n", "p.toml:2: the gradient of a run in fp32 is fp32"},
      {"[plan]\nzeor = 1\n", "p.toml:2: unknown key 'zeor'"},
  };
  for (const auto& [text, why] : kTable) {
    EXPECT_THAT(ParsePlanFile("p.toml", text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)))
        << text;
  }
}

// Configuration and plan are one layer: the same key in both is refused; a flag wins over either.
TEST(PlanFileTest, OneLayerWithTheConfiguration) {
  FileSystem& files = RealFileSystem();
  const std::string plan = JoinPath(::testing::TempDir(), "plan.toml");
  const std::string config = JoinPath(::testing::TempDir(), "run.toml");
  ASSERT_OK(files.WriteFileAtomically(plan, "[plan]\nmicro_batch = 2\nmicro_batches = 3\n"));
  ASSERT_OK(files.WriteFileAtomically(config, "[batch]\nglobal_batch = 12\n"));
  std::vector<std::string> flags = {"--preset=gpt2-tiny", "--data=synthetic", "--steps=1",
                                    absl::StrCat("--plan=", plan)};
  ASSERT_OK_AND_ASSIGN(const Config alone, ReadConfig(Trainer::kPretrain, flags, files));
  EXPECT_EQ(alone.options.batch.micro_batch, 2);
  EXPECT_EQ(alone.options.batch.global_batch, 6);
  flags.push_back("--micro_batch=3");
  ASSERT_OK_AND_ASSIGN(const Config flag, ReadConfig(Trainer::kPretrain, flags, files));
  EXPECT_EQ(flag.options.batch.micro_batch, 3);
  flags.push_back(absl::StrCat("--config=", config));
  EXPECT_THAT(ReadConfig(Trainer::kPretrain, flags, files),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("batch.global_batch is given twice"),
                             HasSubstr("run.toml:2"), HasSubstr("plan.toml:3"))));
  EXPECT_THAT(ReadConfig(Trainer::kConvert, {absl::StrCat("--plan=", plan)}, files),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--plan is no flag of")));
  EXPECT_THAT(ReadConfig(Trainer::kPretrain, {"--plan=/nowhere.toml"}, files),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("--plan=/nowhere.toml")));
}

// The plan of a training run, in trainers that compute less.
TEST(PlanFileTest, OtherTrainersTakeWhatTheyComputeWith) {
  const std::string plan = JoinPath(::testing::TempDir(), "stages.toml");
  ASSERT_OK(RealFileSystem().WriteFileAtomically(
      plan,
      "[plan]\nmicro_batch = 2\nmicro_batches = 4\nzero = 1\nschedule = \"gpipe\"\n"
      "[[stage]]\nranks = \"0\"\n[[stage]]\nranks = \"1-2\"\nmesh = \"data=2\"\n"));
  ASSERT_OK_AND_ASSIGN(const Config evaluate,
                       ReadConfig(Trainer::kEvaluate,
                                  {"--model=DIR", "--data=FILE", absl::StrCat("--plan=", plan)},
                                  RealFileSystem()));
  EXPECT_EQ(evaluate.options.plan.mesh, "stage:/stage:data=2");
  EXPECT_EQ(evaluate.options.batch.micro_batch, 2);
  ASSERT_OK_AND_ASSIGN(
      const Config parity,
      ReadConfig(Trainer::kParity, {"--model=DIR", "--golden=FILE", absl::StrCat("--plan=", plan)},
                 RealFileSystem()));
  EXPECT_EQ(parity.options.plan.schedule, "gpipe");
  EXPECT_EQ(parity.options.plan.zero, 1);
  ASSERT_OK_AND_ASSIGN(
      const Config planned,
      ReadConfig(Trainer::kPlan, {"--preset=gpt2-tiny", absl::StrCat("--plan=", plan)},
                 RealFileSystem()));
  EXPECT_EQ(planned.options.plan.mesh, "stage:/stage:data=2");
  EXPECT_EQ(planned.options.batch.global_batch, 8);
}

TEST(PlanFileTest, DropoutIsThatOfTheModel) {
  EXPECT_THAT(KeysOf("[plan]\ndropout = true\n"),
              UnorderedElementsAre(Pair("model.dropout", "-1")));
}

}  // namespace
}  // namespace colossus
