// Field case A13 on ranks: vocabulary 10 on tensor=4, where every rank has 3 of 12 rows. What is
// saved of such runs: trainers/lib/ranks/vocabulary_ranks_test.cc.
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/layouts/compare.h"
#include "tests/layouts/layout_run.h"
#include "tests/parity/small_trainer.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

// One AdamW update of a model whose logits are all equal, with a target in each rank's rows.
LayoutRun EqualLogits(bool tied, int64_t tensor, std::vector<int32_t> targets) {
  LayoutRun run;
  run.config = SmallGpt2(absl::StrCat(R"({"vocab_size": 10, "n_head": 4, "n_embd": 24,
                                          "tie_word_embeddings": )",
                                      tied ? "true" : "false", "}"));
  const std::string head = tied ? "transformer.wte.weight" : "lm_head.weight";
  run.values = [head](const StateInfo& info) {
    HostTensor values = RandomValues(info);
    for (float& x : values.data<float>()) x = info.name == head ? 0 : x;
    return values;
  };
  std::vector<MeshAxis> mesh;
  if (tensor > 1) mesh = {{"tensor", tensor}};
  run.plan = LayoutPlan(mesh, 1, 1, 4);
  run.updates = 1;
  run.learning_rate = 0.01;
  run.row = [targets](int64_t, std::vector<int32_t>& ids, std::vector<int32_t>& labels,
                      std::vector<int32_t>&, std::vector<int32_t>&) {
    ids = {9, 1, 4, 7};
    labels = targets;
  };
  return run;
}

// That padded rows stay zero through gradient and AdamW is checked where the parts of all ranks are
// put together (layout_run.cc): of parameters and moments.
TEST(FieldCases, A13PaddedVocabulary) {
  for (bool tied : {false, true}) {
    ASSERT_OK_AND_ASSIGN(const LayoutResult one, Train(EqualLogits(tied, 1, {1, 4, 7, 9})));
    for (int64_t tensor : {2, 4}) {
      for (NormLayout norms : {NormLayout::kReplicated, NormLayout::kSharded}) {
        SCOPED_TRACE(absl::StrCat(tied ? "tied" : "untied", " tensor=", tensor, Name(norms)));
        LayoutRun run = EqualLogits(tied, tensor, {1, 4, 7, 9});
        run.plan.norms = norms;
        ASSERT_OK_AND_ASSIGN(const LayoutResult many, Train(run));
        EXPECT_NEAR(many.losses[0], 2.302585, 1e-6);  // 2.484907 counts the padding
        ExpectEqual(many, one, {.states = false});
        const Dims rows = {10, 24};
        EXPECT_EQ(many.states.at("transformer.wte.weight").type().dims, rows);
        EXPECT_EQ(many.states.at("moment1/transformer.wte.weight").type().dims, rows);
        if (!tied) {
          EXPECT_EQ(many.states.at("lm_head.weight").type().dims, rows);
        }
      }
    }
  }
}

// The padded table has a row 10, the vocabulary has not.
TEST(FieldCases, A13TargetOutsideTheVocabulary) {
  for (int64_t tensor : {1, 4}) {
    EXPECT_THAT(
        Train(EqualLogits(true, tensor, {1, 4, 10, 9})),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr("target 10 at position 2 of row 0 is outside the vocabulary, 10")));
  }
}

}  // namespace
}  // namespace colossus
