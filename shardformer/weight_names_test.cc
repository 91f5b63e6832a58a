#include "shardformer/weight_names.h"

#include "absl/status/status.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// Protects: files of wrapped classes and of bare base models are found.
TEST(WeightNamesTest, CoreName) {
  const struct {
    const char *name, *core;
  } rows[] = {
      {"transformer.h.0.ln_1.weight", "h.0.ln_1.weight"},
      {"h.0.ln_1.weight", "h.0.ln_1.weight"},
      {"module.transformer.h.0.ln_1.weight", "h.0.ln_1.weight"},
      {"_orig_mod.module.model.norm.weight", "norm.weight"},
      {"module._orig_mod.model.model.norm.weight", "norm.weight"},
      {"lm_head.weight", "lm_head.weight"},
      {"model_parallel.weight", "model_parallel.weight"},
      {"transformer", "transformer"},
      {"", ""},
  };
  for (const auto& row : rows) EXPECT_EQ(CoreName(row.name), row.core) << row.name;
}

// Protects: masks and rotary tables are no parameters, biases of attention are.
TEST(WeightNamesTest, IgnoredBuffers) {
  const struct {
    const char* name;
    bool ignored;
  } rows[] = {
      {"transformer.h.0.attn.bias", true},
      {"h.11.attn.masked_bias", true},
      {"model.layers.0.self_attn.rotary_emb.inv_freq", true},
      {"model.rotary_emb.inv_freq", true},
      {"embeddings.position_ids", true},
      {"transformer.h.0.attn.c_attn.bias", false},
      {"transformer.h.0.attn.c_proj.bias", false},
      {"model.layers.0.self_attn.q_proj.bias", false},
  };
  for (const auto& row : rows) EXPECT_EQ(IsIgnoredBuffer(row.name), row.ignored) << row.name;
}

// Protects: each name of a file ends in exactly one list, missing ones keep the model's order.
TEST(WeightNamesTest, EveryNameHasAPlace) {
  ASSERT_OK_AND_ASSIGN(
      NameMatch match,
      MatchNames({"transformer.wte.weight", "transformer.wpe.weight", "transformer.ln_f.bias"},
                 {"module.wte.weight", "h.0.attn.bias", "score.weight"}));
  EXPECT_THAT(match.source, ElementsAre(Pair("transformer.wte.weight", "module.wte.weight")));
  EXPECT_THAT(match.missing, ElementsAre("transformer.wpe.weight", "transformer.ln_f.bias"));
  EXPECT_THAT(match.unexpected, ElementsAre("score.weight"));
  EXPECT_THAT(match.ignored, ElementsAre("h.0.attn.bias"));
}

// Protects: a parameter is never ignored because its name looks like a buffer's.
TEST(WeightNamesTest, ParametersGoBeforeBuffers) {
  ASSERT_OK_AND_ASSIGN(NameMatch match, MatchNames({"x.attn.bias"}, {"model.x.attn.bias"}));
  EXPECT_THAT(match.source, ElementsAre(Pair("x.attn.bias", "model.x.attn.bias")));
  EXPECT_THAT(match.ignored, IsEmpty());
}

// Protects: of two tensors for one parameter none is chosen silently.
TEST(WeightNamesTest, RefusesTwoForOne) {
  EXPECT_THAT(MatchNames({"model.norm.weight"}, {"model.norm.weight", "norm.weight"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("'model.norm.weight' and 'norm.weight'"),
                             HasSubstr("keep one"))));
}

TEST(WeightNamesDeathTest, CanonicalCoresAreUnique) {
  EXPECT_DEATH(MatchNames({"model.a", "a"}, {}).IgnoreError(), "have one core");
}

}  // namespace
}  // namespace colossus
