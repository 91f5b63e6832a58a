// Frozen parameters (FIELD-CASES A11 at the level of the trainer): whatever else a run does, they
// keep their bits, nothing is kept for them, and the others train alike.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/dtype.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/host_tensor.h"
#include "trainers/lib/testing/tiny_run.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Embeddings and the first block: of two stages the whole first one, but for what the head reads.
constexpr char kFirstLayers[] = "--freeze=*.wpe.weight,*.h.0.*";

class FreezeTest : public ::testing::Test {
 protected:
  FreezeTest() : run_("freeze") {
    run_.WriteText(20);
    run_.WriteModel({{"n_layer", 2}});
  }
  TinyResult Train(Flags flags) const {
    flags.push_back("--metrics=" + run_.Path("metrics.jsonl"));
    return run_.Train(flags);
  }
  // Values as a run begins, but of what it must train.
  std::map<std::string, HostTensor> FirstValues() const {
    TinyResult result = run_.Train({"--freeze=*,!*.ln_f.bias", "--steps=1"});
    EXPECT_OK(result.status);
    result.states.erase("transformer.ln_f.bias");
    return std::move(result.states);
  }

  TinyRun run_;
};

bool IsFrozen(const std::string& name) {
  return absl::StrContains(name, ".wpe.weight") || absl::StrContains(name, ".h.0.");
}

TEST_F(FreezeTest, A11_FrozenOnesKeepTheirBits) {
  const std::map<std::string, HostTensor> before = FirstValues();
  const TinyResult result = run_.Train({kFirstLayers, "--steps=3", "--learning_rate=0.01"});
  ASSERT_OK(result.status);
  EXPECT_THAT(result.log, HasSubstr("; frozen: 13 tensors ("));
  EXPECT_THAT(result.log, HasSubstr(" frozen ones + 6 x "));
  int frozen = 0;
  for (const auto& [name, value] : result.states) {
    EXPECT_FALSE(absl::StrContains(name, "/") && IsFrozen(name)) << name;  // no moments
    if (before.count(name) == 0) continue;
    frozen += IsFrozen(name);
    EXPECT_EQ(value == before.at(name), IsFrozen(name)) << name;
  }
  EXPECT_EQ(frozen, 13);
}

// Two bytes a frozen parameter.
TEST_F(FreezeTest, A11_NarrowOnesHaveNoMaster) {
  const TinyResult result = run_.Train({kFirstLayers, "--steps=2", "--precision=bf16"});
  ASSERT_OK(result.status);
  const std::string frozen = "transformer.h.0.mlp.c_fc.weight";
  EXPECT_EQ(result.states.at(frozen).type().dtype, DType::kBF16);
  EXPECT_EQ(result.states.count("master/" + frozen), 0u);
  EXPECT_EQ(result.states.count("master/transformer.h.1.mlp.c_fc.weight"), 1u);
}

TEST_F(FreezeTest, OnlyTheEmbedding) {
  const std::map<std::string, HostTensor> before = FirstValues();
  const TinyResult result = run_.Train({"--freeze=*,!*.wte.weight", "--steps=2"});
  ASSERT_OK(result.status);
  for (const auto& [name, value] : result.states) {
    if (before.count(name) == 0) continue;
    EXPECT_EQ(value == before.at(name), !absl::StrContains(name, "wte")) << name;
  }
}

TEST_F(FreezeTest, SameBitsWhateverElseARunDoes) {
  for (const char* freeze : {kFirstLayers, "--freeze=*,!*.wte.weight"}) {
    for (const char* precision : {"--precision=fp32", "--precision=bf16"}) {
      const Flags job = {
          freeze, precision, "--steps=3", "--micro_batch=1", "--global_batch=4", "--clip_norm=0"};
      const TinyResult plain = Train(job);
      ASSERT_OK(plain.status);
      for (const Flags& more :
           std::vector<Flags>{{"--recompute=block"},
                              {"--recompute=optimal"},
                              {"--update=layerwise"},
                              {"--device=capped", "--device_memory=1GB", "--placement=cpu"},
                              {"--device=capped", "--device_memory=1GB", "--placement=cpu",
                               "--update=layerwise"}}) {
        SCOPED_TRACE(absl::StrCat(freeze, " ", precision, " ", more.back()));
        const TinyResult other = Train(With(job, more));
        ASSERT_OK(other.status);
        EXPECT_EQ(Losses(other), Losses(plain));
        EXPECT_EQ(StateDifference(other.states, plain.states), "");
      }
      for (const Flags& more : std::vector<Flags>{
               {"--mesh=stage=2"},
               {"--mesh=stage=2", "--schedule=zb-v"},
               {"--mesh=stage=4", "--schedule=zb-h1"},
               {"--mesh=stage=2", "--device=capped", "--device_memory=1GB", "--placement=cpu"}}) {
        SCOPED_TRACE(absl::StrCat(freeze, " ", precision, " ", more.back()));
        const TinyResult other = Train(With(job, more));
        ASSERT_OK(other.status);
        EXPECT_EQ(Losses(other), Losses(plain));
      }
    }
  }
}

// Its first stage has no backward either.
TEST_F(FreezeTest, AStageWithNothingToTrain) {
  run_.WriteModel({{"n_layer", 2}, {"tie_word_embeddings", false}});
  const Flags job = {"--freeze=*.wte.*,*.wpe.*,*.h.0.*", "--steps=3", "--micro_batch=1",
                     "--global_batch=4"};
  const TinyResult plain = Train(job);
  ASSERT_OK(plain.status);
  for (const Flags& more :
       std::vector<Flags>{{"--mesh=stage=2"},
                          {"--mesh=stage=2", "--schedule=zb-v"},
                          {"--mesh=stage=2", "--device=capped", "--device_memory=1GB"},
                          {"--mesh=stage=2,data=2", "--zero=3"},
                          {"--mesh=stage:data=2/stage:", "--zero=1"}}) {
    SCOPED_TRACE(absl::StrJoin(more, " "));
    const TinyResult many = Train(With(job, more));
    ASSERT_OK(many.status);
    ExpectEqualLosses(Losses(many), Losses(plain));
  }
}

TEST_F(FreezeTest, EqualOnRanks) {
  for (const char* freeze : {kFirstLayers, "--freeze=*,!*.wte.weight"}) {
    const Flags job = {freeze, "--steps=3", "--micro_batch=1", "--global_batch=4"};
    const TinyResult one = Train(job);
    ASSERT_OK(one.status);
    for (const Flags& more :
         std::vector<Flags>{{"--mesh=data=2"},
                            {"--mesh=data=2", "--zero=1"},
                            {"--mesh=data=2", "--zero=2", "--recompute=block"},
                            {"--mesh=data=2", "--zero=3"},
                            {"--mesh=tensor=2"},
                            {"--mesh=sequence=2", "--zero=3"},
                            {"--mesh=stage=2,data=2", "--zero=3"},
                            {"--mesh=stage:data=2/stage:tensor=2", "--zero=1"}}) {
      SCOPED_TRACE(absl::StrCat(freeze, " ", absl::StrJoin(more, " ")));
      const TinyResult many = Train(With(job, more));
      ASSERT_OK(many.status);
      ExpectEqualLosses(Losses(many), Losses(one));
    }
  }
}

TEST_F(FreezeTest, GoesOnAsItWas) {
  const auto steps = [&](int count, const char* out, const char* freeze = kFirstLayers) {
    return Flags{freeze, "--precision=bf16", "--schedule=constant", absl::StrCat("--steps=", count),
                 "--out=" + run_.Path(out)};
  };
  const TinyResult whole = run_.Train(steps(4, "whole"));
  ASSERT_OK(whole.status);
  ASSERT_OK(run_.Train(steps(2, "parts")).status);
  const TinyResult resumed = run_.Train(steps(4, "parts"));
  ASSERT_OK(resumed.status);
  EXPECT_EQ(StateDifference(resumed.states, whole.states), "");
  EXPECT_THAT(run_.Train(steps(5, "parts", "--freeze=*.wpe.weight")).status.message(),
              HasSubstr("model.freeze was"));
}

TEST_F(FreezeTest, Refused) {
  EXPECT_THAT(run_.Train({"--freeze=*.wqe.weight"}).status.message(),
              AllOf(HasSubstr("no parameter is named '*.wqe.weight'"),
                    HasSubstr("'transformer.wte.weight'")));
  EXPECT_THAT(run_.Train({"--freeze=*"}).status.message(), HasSubstr("nothing is left to train"));
}

}  // namespace
}  // namespace colossus
