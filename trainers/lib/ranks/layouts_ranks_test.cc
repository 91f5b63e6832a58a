// The other axes, through the trainers: training, resuming, evaluating, generating and parity.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "trainers/lib/answer/evaluate.h"
#include "trainers/lib/answer/generate.h"
#include "trainers/lib/answer/parity.h"
#include "trainers/lib/config/config.h"
#include "trainers/lib/config/log.h"
#include "trainers/lib/config/main.h"
#include "trainers/lib/testing/tiny_run.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

const std::vector<Flags>& Layouts() {
  static const std::vector<Flags>& layouts = *new std::vector<Flags>{
      {"--mesh=tensor=2"},
      {"--mesh=tensor=2", "--norms=replicated"},
      {"--mesh=data=2,tensor=2"},
      {"--mesh=tensor=4", "--tensor_layout=2d"},
      {"--mesh=sequence=2"},
      {"--mesh=sequence=2", "--sequence=all_to_all"},
      {"--mesh=data=4", "--zero=1"},
      {"--mesh=data=2,tensor=2", "--zero=2"},
      {"--mesh=data=2,sequence=2", "--zero=3", "--chunk_elements=3000"},
      {"--mesh=data=2,sequence=2,tensor=2"},
      {"--mesh=data=2,tensor=2", "--overrides=*.c_fc.weight=data/tensor;*wte*=tensor"},
      {"--mesh=stage=2"},
      {"--mesh=stage=2,data=2", "--zero=1", "--schedule=gpipe"},
      {"--mesh=stage=2,data=2", "--zero=3"},
      {"--mesh=stage=2,tensor=2", "--schedule=zb-v"},
      {"--mesh=stage=3", "--schedule=zb-h1", "--borders=h.1,head"},
      {"--mesh=stage=2,data=2", "--zero=1", "--schedule=searched"},
      {"--mesh=stage:/stage:/stage:data=2"},
      {"--mesh=stage:data=2/stage:", "--zero=3", "--schedule=searched"},
      {"--mesh=stage:data=2/stage:tensor=2", "--zero=2", "--schedule=gpipe"},
  };
  return layouts;
}

class LayoutsRanksTest : public ::testing::Test {
 protected:
  LayoutsRanksTest() : run_(::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    run_.WriteModel({{"n_head", 4}, {"n_embd", 32}, {"n_layer", 2}, {"vocab_size", 264}});
    run_.WriteText(48);
  }

  TinyRun run_;
};

TEST_F(LayoutsRanksTest, TheSameLosses) {
  const Flags flags = {"--steps=4", "--global_batch=8", "--micro_batch=2", "--optimizer=sgd",
                       "--metrics=" + run_.Path("metrics")};
  const TinyResult one = run_.Train(flags);
  ASSERT_OK(one.status);
  for (const Flags& layout : Layouts()) {
    SCOPED_TRACE(layout.back());
    const TinyResult many = run_.Train(With(flags, layout));
    ASSERT_OK(many.status);
    ExpectEqualLosses(Losses(many), Losses(one));
  }
}

// Validation is a forward of its own, cut up in its own way.
TEST_F(LayoutsRanksTest, ValidatesOnStages) {
  const Flags flags = {"--steps=2", "--global_batch=4", "--micro_batch=1", "--optimizer=sgd",
                       "--validation_share=0.3", "--metrics=" + run_.Path("metrics")};
  const TinyResult one = run_.Train(flags);
  ASSERT_OK(one.status);
  for (const char* mesh : {"--mesh=stage=2,data=2", "--mesh=stage:data=2/stage:tensor=2/stage:"}) {
    SCOPED_TRACE(mesh);
    const TinyResult many = run_.Train(With(flags, {mesh, "--zero=3"}));
    ASSERT_OK(many.status);
    ExpectEqualLosses({many.metrics.back().at("validation_loss").get<double>()},
                      {one.metrics.back().at("validation_loss").get<double>()});
  }
}

// C2: saved on one layout, resumed on others.
TEST_F(LayoutsRanksTest, C2_ResumesAtAnyLayout) {
  const Flags flags = {"--steps=6", "--global_batch=8", "--micro_batch=2"};
  const auto place = [&](const std::string& name) {
    return Flags{"--out=" + run_.Path(name), "--metrics=" + run_.Path(name + ".jsonl")};
  };
  const TinyResult whole = run_.Train(With(With(flags, {"--ranks=1"}), place("whole")));
  ASSERT_OK(whole.status);
  const auto stopped = [&](const Flags& layout, const std::string& name) {
    return run_.TrainRanks(With(With(flags, layout), place(name)), [](int) {
      TinyRun::RankSetup setup;
      const auto done = std::make_shared<int64_t>(0);
      setup.hooks.after_update = [done](int64_t step, Session&) {
        *done = step;
        return absl::OkStatus();
      };
      setup.hooks.stop = [done] { return *done >= 3 ? SIGTERM : 0; };
      return setup;
    });
  };
  const auto expect_goes_on = [&](const std::string& saved, const Flags& layout, size_t i) {
    SCOPED_TRACE(absl::StrCat(saved, " ", layout.back()));
    const std::string copy = absl::StrCat(saved, "-", i);
    ASSERT_EQ(std::system(absl::StrCat("cp -r ", run_.Path(saved), " ", run_.Path(copy), " && cp ",
                                       run_.Path(saved + ".jsonl"), " ", run_.Path(copy + ".jsonl"))
                              .c_str()),
              0);
    const TinyResult rest = run_.Train(With(With(flags, layout), place(copy)));
    ASSERT_OK(rest.status);
    EXPECT_THAT(rest.log, HasSubstr("goes on with step 4 of 6"));
    ExpectEqualLosses(Losses(rest), Losses(whole));
  };
  const TinyResult cut = stopped({"--mesh=data=2,tensor=2"}, "cut");
  ASSERT_EQ(cut.exit_code, 128 + SIGTERM) << cut.status;
  std::vector<Flags> layouts = Layouts();
  layouts.push_back({"--ranks=1"});
  layouts.push_back({"--mesh=tensor=4"});
  for (size_t i = 0; i < layouts.size(); ++i) expect_goes_on("cut", layouts[i], i);
  // From stages, of which each saves its own, and one what is tied.
  const TinyResult stages = stopped({"--mesh=stage=2,data=2", "--zero=1"}, "stages");
  ASSERT_EQ(stages.exit_code, 128 + SIGTERM) << stages.status;
  expect_goes_on("stages", {"--ranks=1"}, 0);
  expect_goes_on("stages", {"--mesh=data=4", "--zero=3"}, 1);
  expect_goes_on("stages", {"--mesh=stage=3"}, 2);
  expect_goes_on("stages", {"--mesh=stage:tensor=2/stage:data=2"}, 3);
  const TinyResult meshes = stopped({"--mesh=stage:tensor=2/stage:data=2", "--zero=3"}, "meshes");
  ASSERT_EQ(meshes.exit_code, 128 + SIGTERM) << meshes.status;
  expect_goes_on("meshes", {"--ranks=1"}, 0);
  expect_goes_on("meshes", {"--mesh=stage:data=4/stage:"}, 1);
}

TEST_F(LayoutsRanksTest, A14_HeadsThatDoNotDivide) {
  run_.WriteModel({{"n_head", 3}, {"n_embd", 24}});
  const TinyResult result = run_.Train({"--steps=1", "--mesh=tensor=2"});
  EXPECT_THAT(result.status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("3 query heads and 3 key/value heads cannot be split over "
                                 "tensor=2; these tensor sizes would do: 1, 3")));
}

// Evaluate and generate on what a run of one rank has exported.
TEST_F(LayoutsRanksTest, EvaluatesAndGenerates) {
  ASSERT_OK(run_.Train({"--steps=2", "--out=" + run_.Path("out")}).status);
  Log quiet(nullptr, false);
  const auto evaluate = [&](const Flags& more) {
    const Flags flags = {"--model=" + run_.Path("out"), "--data=" + run_.Path("text.txt"),
                         "--sequence_length=8", "--micro_batch=5", "--threads=1"};
    const absl::StatusOr<Config> config =
        ReadConfig(Trainer::kEvaluate, With(flags, more), RealFileSystem());
    EXPECT_OK(config);
    JobContext context{*config, quiet};
    absl::StatusOr<Evaluation> result = Evaluate(RealFileSystem(), context);
    EXPECT_OK(result);
    return result.ok() ? *result : Evaluation();
  };
  const Evaluation one = evaluate({});
  for (Flags layout : Layouts()) {
    SCOPED_TRACE(layout.back());
    std::erase_if(layout, [](const std::string& flag) {  // those of training
      constexpr const char* kTraining[] = {"--zero", "--schedule", "--borders", "--chunk_elements",
                                           "--overrides"};
      return std::any_of(std::begin(kTraining), std::end(kTraining),
                         [&](const char* name) { return flag.find(name) == 0; });
    });
    const Evaluation many = evaluate(layout);
    EXPECT_EQ(many.tokens, one.tokens);
    ExpectEqualLosses({many.loss()}, {one.loss()});
  }
  const auto generate = [&](const Flags& more) {
    const Flags flags = {"--model=" + run_.Path("out"), "--prompt_ids=97,98,99", "--threads=1",
                         "--max_new_tokens=8", "--temperature=0"};
    const absl::StatusOr<Config> config =
        ReadConfig(Trainer::kGenerate, With(flags, more), RealFileSystem());
    EXPECT_OK(config);
    JobContext context{*config, quiet};
    return Generate(RealFileSystem(), context, nullptr);
  };
  const absl::StatusOr<Generation> alone = generate({});
  ASSERT_OK(alone);
  for (const char* mesh : {"--mesh=tensor=2", "--mesh=tensor=4"}) {
    const absl::StatusOr<Generation> split = generate({mesh});
    ASSERT_OK(split);
    EXPECT_EQ(split->ids, alone->ids) << mesh;
  }
  EXPECT_THAT(generate({"--mesh=data=2"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--mesh=tensor=2")));
}

// Three rows: on two ranks one row is padding.
TEST_F(LayoutsRanksTest, ParityPadsItsBatch) {
  const std::string folder = "tests/golden/gpt2_inner";
  Log quiet(nullptr, false);
  const std::vector<Flags> layouts = {
      {"--ranks=2"}, {"--mesh=data=3"}, {"--mesh=stage=2"}, {"--mesh=stage=3,data=2"},
      {"--mesh=stage:/stage:data=2"}, {"--mesh=stage:data=2/stage:tensor=3"}};
  for (const Flags& layout : layouts) {
    SCOPED_TRACE(layout.back());
    const absl::StatusOr<Config> config = ReadConfig(
        Trainer::kParity,
        With({"--model=" + folder, "--golden=" + folder + "/golden.safetensors", "--threads=1"},
             layout),
        RealFileSystem());
    ASSERT_OK(config);
    JobContext context{*config, quiet};
    ::testing::internal::CaptureStdout();
    const absl::StatusOr<int> code = RunParity(context);
    const std::string printed = ::testing::internal::GetCapturedStdout();
    EXPECT_THAT(code, IsOkAndHolds(0)) << printed;
  }
}

}  // namespace
}  // namespace colossus
