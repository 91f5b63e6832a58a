// Field case A13 in files: a vocabulary of 10 trained on tensor=4, where 12 rows are held, is saved
// with 10 and loads at any number of tensor ranks. The numbers:
// tests/layouts/vocabulary_cases_test.
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tensor/host_tensor.h"
#include "tensor/io/safetensors.h"
#include "trainers/lib/checkpoint/checkpoint.h"
#include "trainers/lib/testing/tiny_run.h"

namespace colossus {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

double LastLoss(const TinyResult& result) { return result.metrics.back().at("loss"); }

// Rows of a tensor in the exported model; 0: it is not there.
int64_t ExportedRows(const TinyRun& run, const std::string& tensor) {
  const auto file =
      SafetensorsFile::Open(RealFileSystem(), run.Path("out/model/model.safetensors"));
  EXPECT_OK(file);
  const SafetensorsEntry* entry = file->Find(tensor);
  return entry == nullptr ? 0 : entry->dims[0];
}

class VocabularyTest : public ::testing::TestWithParam<bool> {};

TEST_P(VocabularyTest, A13_SavedWithTenRows) {
  const bool tied = GetParam();
  TinyRun run(tied ? "a13_tied" : "a13_untied");
  run.WriteModel(
      {{"vocab_size", 10}, {"n_head", 12}, {"n_embd", 24}, {"tie_word_embeddings", tied}});
  const Flags flags = {"--data=synthetic", "--global_batch=4", "--schedule=constant",
                       "--metrics=" + run.Path("metrics")};
  const TinyResult first =
      run.Train(With(flags, {"--steps=1", "--mesh=tensor=4", "--out=" + run.Path("out")}));
  ASSERT_OK(first.status);
  EXPECT_EQ(ExportedRows(run, "transformer.wte.weight"), 10);
  EXPECT_EQ(ExportedRows(run, "lm_head.weight"), tied ? 0 : 10);
  const std::string step_1 = CheckpointPath(CheckpointFolder(run.Path("out")), 1);
  ASSERT_OK_AND_ASSIGN(const Checkpoint saved, Checkpoint::Open(RealFileSystem(), step_1));
  for (const SavedState& state : saved.record().states) {
    if (state.name.find("wte") == std::string::npos &&
        state.name.find("lm_head") == std::string::npos) {
      continue;
    }
    EXPECT_THAT(state.type.dims, ElementsAre(10, 24)) << state.name;
  }
  // The exported model, and the checkpoint that goes on, at 1, 2, 3 and 4 tensor ranks.
  std::vector<double> loaded, resumed;
  for (int tensor = 1; tensor <= 4; ++tensor) {
    SCOPED_TRACE(tensor);
    const std::string mesh = absl::StrCat("--mesh=tensor=", tensor);
    const TinyResult load =
        run.Train(With(flags, {"--steps=1", mesh, "--model=" + run.Path("out/model")}));
    ASSERT_OK(load.status);
    loaded.push_back(LastLoss(load));
    const std::string copy = run.Path(absl::StrCat("resumed-", tensor));
    ASSERT_EQ(std::system(absl::StrCat("cp -r ", run.Path("out"), " ", copy).c_str()), 0);
    const TinyResult rest = run.Train(With(flags, {"--steps=2", mesh, "--out=" + copy}));
    ASSERT_OK(rest.status);
    EXPECT_THAT(rest.log, HasSubstr("goes on with step 2 of 2"));
    resumed.push_back(LastLoss(rest));
  }
  for (const std::vector<double>& losses : {loaded, resumed}) {
    for (double loss : losses) EXPECT_LE(std::abs(loss - losses[0]), 1e-5 * losses[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, VocabularyTest, ::testing::Bool());

// Text whose ids the vocabulary does not have is refused before anything is computed.
TEST(VocabularyRanksTest, A13_DataOfAnotherVocabulary) {
  TinyRun run("a13_data");
  run.WriteModel({{"vocab_size", 10}, {"n_head", 4}, {"n_embd", 24}});
  EXPECT_THAT(run.Train({"--steps=1", "--mesh=tensor=4"}).status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has ids up to 256 but the model's vocabulary is 10")));
}

}  // namespace
}  // namespace colossus
