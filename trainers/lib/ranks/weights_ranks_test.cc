// Weights of files on ranks that split them: field cases C7 and G3 along tensor. What the ranks
// hold together is what the file has, and what they export is too.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/io/safetensors.h"
#include "trainers/lib/config.h"
#include "trainers/lib/log.h"
#include "trainers/lib/main.h"
#include "trainers/lib/ranks/launch.h"
#include "trainers/lib/ranks/run_inputs.h"
#include "trainers/lib/ranks/run_layout.h"
#include "trainers/lib/ranks/whole_state.h"
#include "trainers/lib/run_output.h"
#include "trainers/lib/session.h"

namespace colossus {
namespace {

struct Row {
  const char* golden;
  std::vector<std::string> layout;
};

class WeightsRanksTest : public ::testing::TestWithParam<Row> {
 protected:
  WeightsRanksTest() : out_(JoinPath(::testing::TempDir(), "weights")) {
    EXPECT_OK(RealFileSystem().RemoveTree(out_));
  }

  // Loads, compares, saves and exports on one rank.
  absl::StatusOr<int> RunRank(JobContext& context, const RunLayout& layout, RankGroup group,
                              RunInputs& inputs) {
    ASSIGN_OR_RETURN(RunOutput output, RunOutput::Open(RealFileSystem(), context.config.options.run,
                                                       context.log, group));
    ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                     OpenSession(inputs, context.config, layout, group));
    RETURN_IF_ERROR(output.TryToWrite());
    RETURN_IF_ERROR(session->training->Allocate());
    RETURN_IF_ERROR(SetFirstValues(*session));
    const ModelSource& weights = *session->input->weights;
    for (const StateInfo& info : session->training->parameters()) {
      ASSIGN_OR_RETURN(const HostTensor whole,
                       ReadWholeState(*session->training, info.name, group));
      ASSIGN_OR_RETURN(const HostTensor expected, weights.Read(info, DType::kF32));
      EXPECT_EQ(whole, expected) << info.name;
    }
    CheckpointRecord record;
    record.counters.attempted = 1;
    record.model = session->model.raw.dump();
    RETURN_IF_ERROR(output.Save(*session, record));
    RETURN_IF_ERROR(output.Export(*session));
    return 0;
  }

  const std::string out_;
};

TEST_P(WeightsRanksTest, LoadsAndExportsTheSameBits) {
  const std::string folder = absl::StrCat("tests/golden/", GetParam().golden);
  std::vector<std::string> flags = {"--model=" + folder, "--data=synthetic", "--steps=1",
                                    "--precision=fp32",  "--threads=1",      "--out=" + out_};
  flags.insert(flags.end(), GetParam().layout.begin(), GetParam().layout.end());
  ASSERT_OK_AND_ASSIGN(const Config config,
                       ReadConfig(Trainer::kPretrain, flags, RealFileSystem()));
  Log quiet(nullptr, false);
  JobContext context{config, quiet};
  ASSERT_OK_AND_ASSIGN(const RunLayout layout, LayoutOf(config.options));
  RunInputs inputs(RealFileSystem(), config.options, quiet);
  ASSERT_OK(RunOnRanks(context, layout, [&](JobContext& rank, RankGroup group) {
    return RunRank(rank, layout, group, inputs);
  }));
  ASSERT_OK_AND_ASSIGN(
      const SafetensorsFile exported,
      SafetensorsFile::Open(RealFileSystem(), JoinPath(out_, "model/model.safetensors")));
  // The file of the golden has the same tensors in the orientation they were read in.
  ASSERT_OK_AND_ASSIGN(
      const SafetensorsFile read,
      SafetensorsFile::Open(RealFileSystem(), JoinPath(folder, "model.safetensors")));
  int compared = 0;
  for (const SafetensorsEntry& entry : exported.entries()) {
    const SafetensorsEntry* source = read.Find(entry.name);
    if (source == nullptr || source->dtype != entry.dtype) continue;
    EXPECT_EQ(source->dims, entry.dims) << entry.name;
    const auto a = *exported.data(entry.name), b = *read.data(entry.name);
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << entry.name;
    ++compared;
  }
  EXPECT_GT(compared, 10);
}

INSTANTIATE_TEST_SUITE_P(
    All, WeightsRanksTest,
    ::testing::Values(Row{"gpt2_inner", {"--mesh=tensor=3"}},
                      Row{"gpt2_inner", {"--mesh=data=2", "--zero=3"}},
                      Row{"gpt2_untied", {"--mesh=tensor=5"}},
                      Row{"llama_llama3_bias", {"--mesh=tensor=2"}},
                      Row{"llama_llama3_bias", {"--mesh=tensor=6"}},
                      Row{"llama_llama3_bias", {"--mesh=data=2,tensor=2", "--zero=1"}},
                      Row{"mistral_window", {"--mesh=tensor=4"}},
                      Row{"mistral_window", {"--mesh=tensor=4", "--tensor_layout=2d"}}));

}  // namespace
}  // namespace colossus
