// Training on many ranks: the same numbers, one log, one metrics file; data, resume and signals.
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tensor/io/safetensors.h"
#include "trainers/lib/testing/tiny_run.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<double> Numbers(const TinyResult& result, const char* key) {
  std::vector<double> numbers;
  for (const nlohmann::json& line : result.metrics) numbers.push_back(line.at(key));
  return numbers;
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(TrainRanksTest, DataParallelGivesTheSameNumbers) {
  TinyRun run("data_parallel");
  run.WriteText(48);
  const Flags flags = {"--steps=6", "--global_batch=8", "--optimizer=sgd"};
  const auto train = [&](const Flags& more, const std::string& name) {
    return run.Train(With(With(flags, more), {"--metrics=" + run.Path(name)}));
  };
  const TinyResult one = train({}, "one");
  ASSERT_OK(one.status);
  for (const Flags& more : std::vector<Flags>{{"--ranks=2"},
                                              {"--ranks=2", "--micro_batch=2"},
                                              {"--mesh=data=4"},
                                              {"--ranks=8", "--mesh=data=8"}}) {
    SCOPED_TRACE(more[0]);
    const TinyResult many = train(more, "many");
    ASSERT_OK(many.status);
    EXPECT_EQ(many.exit_code, 0);
    ExpectEqualLosses(Numbers(many, "loss"), Numbers(one, "loss"));
    ExpectEqualLosses(Numbers(many, "grad_norm"), Numbers(one, "grad_norm"));
    EXPECT_EQ(Numbers(many, "tokens"), Numbers(one, "tokens"));
    EXPECT_EQ(Numbers(many, "lr"), Numbers(one, "lr"));
    EXPECT_EQ(Count(many.log, "batch: global batch 8"), 1) << many.log;
    EXPECT_EQ(Count(many.log, "ranks: "), 1) << many.log;
    for (const nlohmann::json& line : many.metrics) {
      EXPECT_GT(line.at("link_bytes").at("data").get<int64_t>(), 0) << line.dump();
    }
    // The same command gives the same bits.
    const TinyResult again = train(more, "again");
    EXPECT_EQ(ComparableLines(again.metrics), ComparableLines(many.metrics));
    EXPECT_EQ(StateDifference(again.states, many.states), "");
  }
  for (const nlohmann::json& line : one.metrics) EXPECT_TRUE(line.at("link_bytes").empty());
}

// D2: 10 rows on 4 ranks with a micro-batch of 1: 4, 4 and 2 rows, the last step with two ranks of
// zero weight; with the tail dropped 2 steps.
TEST(TrainRanksTest, D2_TailThatDoesNotDivide) {
  TinyRun run("d2");
  const Flags flags = {"--epochs=1", "--global_batch=4", "--metrics=" + run.Path("metrics")};
  const TinyResult one = run.Train(flags);
  const TinyResult kept = run.Train(With(flags, {"--ranks=4", "--micro_batch=1"}));
  ASSERT_OK(kept.status);
  EXPECT_THAT(Numbers(kept, "tokens"),
              ElementsAre(4 * kTinyRowTokens, 4 * kTinyRowTokens, 2 * kTinyRowTokens));
  ExpectEqualLosses(Numbers(kept, "loss"), Numbers(one, "loss"));
  const TinyResult dropped =
      run.Train(With(flags, {"--ranks=4", "--micro_batch=1", "--tail=drop"}));
  EXPECT_EQ(Numbers(dropped, "tokens").size(), 2u);
  // 858 rows in batches of 32.
  run.WriteText(858);
  const TinyResult many =
      run.Train({"--epochs=1", "--ranks=4", "--micro_batch=8", "--metrics=" + run.Path("metrics")});
  EXPECT_EQ(many.metrics.size(), 27u);
}

// E1, with the words of the case.
TEST(TrainRanksTest, E1_BatchAndLayoutArithmetic) {
  TinyRun run("e1");
  run.WriteText(300);
  const auto refused = [&](const Flags& flags) {
    const TinyResult result = run.Train(With({"--steps=1"}, flags));
    EXPECT_TRUE(absl::IsInvalidArgument(result.status)) << result.status;
    return std::string(result.status.message());
  };
  EXPECT_THAT(
      refused({"--global_batch=256", "--micro_batch=2", "--ranks=7"}),
      AllOf(HasSubstr("14 "), HasSubstr("does not divide 256"), HasSubstr("252 or 266 would do")));
  EXPECT_THAT(refused({"--ranks=8", "--mesh=data=3"}),
              HasSubstr("must multiply to 8, so an axis can have 1, 2, 4 or 8"));
  EXPECT_THAT(refused({"--global_batch=4", "--ranks=8"}), HasSubstr("would be empty"));
  const TinyResult derived =
      run.Train({"--steps=1", "--global_batch=256", "--micro_batch=2", "--ranks=8"});
  ASSERT_OK(derived.status);
  EXPECT_THAT(derived.log, HasSubstr("micro-batch 2 x accumulation 16 x data-parallel 8"));
}

// C1 and C2 along data: a run that stops and goes on at another number of ranks ends where the
// uninterrupted one does; at the same number, bit by bit.
TEST(TrainRanksTest, C2_ResumesWithOtherRanks) {
  TinyRun run("c2_data");
  run.WriteText(60);
  const Flags flags = {"--global_batch=24", "--epochs=3"};  // 24, 24 and 12 rows
  const auto place = [&](const std::string& name) {
    return Flags{"--out=" + run.Path(name), "--metrics=" + run.Path(name + ".jsonl")};
  };
  const auto stop_after = [](int64_t steps) {
    TrainHooks hooks;
    const auto done = std::make_shared<std::atomic<int64_t>>(0);
    hooks.after_update = [done, steps](int64_t step, Session&) {
      *done = step;
      return absl::OkStatus();
    };
    hooks.stop = [done, steps] { return *done >= steps ? SIGTERM : 0; };
    return hooks;
  };
  const TinyResult whole = run.Train(With(With(flags, {"--ranks=4"}), place("whole")));
  ASSERT_OK(whole.status);
  ASSERT_EQ(whole.metrics.size(), 9u);
  const TinyResult first =
      run.Train(With(With(flags, {"--ranks=4"}), place("cut")), RealFileSystem(), stop_after(5));
  EXPECT_EQ(first.exit_code, 128 + SIGTERM);
  for (const char* ranks : {"--ranks=1", "--ranks=2", "--ranks=3", "--ranks=4", "--ranks=8"}) {
    SCOPED_TRACE(ranks);
    const std::string copy = absl::StrCat("resumed", ranks);
    // Each goes on from the same checkpoint.
    ASSERT_EQ(std::system(absl::StrCat("cp -r ", run.Path("cut"), " ", run.Path(copy), " && cp ",
                                       run.Path("cut.jsonl"), " ", run.Path(copy + ".jsonl"))
                              .c_str()),
              0);
    const TinyResult rest = run.Train(With(With(flags, {ranks}), place(copy)));
    ASSERT_OK(rest.status);
    EXPECT_THAT(rest.log, HasSubstr("goes on with step 6 of 9"));
    ExpectEqualLosses(Numbers(rest, "loss"), Numbers(whole, "loss"));
    EXPECT_EQ(Numbers(rest, "tokens"), Numbers(whole, "tokens"));
    if (absl::string_view(ranks) == "--ranks=4") {
      EXPECT_EQ(ComparableLines(rest.metrics), ComparableLines(whole.metrics));
      EXPECT_EQ(StateDifference(rest.states, whole.states), "");
    }
  }
}

// A signal that only one rank has seen stops all of them after the same step, between updates and
// between micro-batches.
TEST(TrainRanksTest, ASignalOnOneRankStopsAll) {
  for (const bool give_up : {false, true}) {
    TinyRun run("signal");
    std::atomic<int> looks{0};
    const TinyResult result = run.TrainRanks({"--steps=9", "--ranks=3", "--global_batch=6",
                                              "--micro_batch=1", "--out=" + run.Path("out")},
                                             [&](int rank) {
                                               TinyRun::RankSetup setup;
                                               setup.hooks.finish_seconds = give_up ? -1 : 1e9;
                                               setup.hooks.stop = [&, rank] {
                                                 return rank == 2 && ++looks > 5 ? SIGINT : 0;
                                               };
                                               return setup;
                                             });
    ASSERT_OK(result.status);
    EXPECT_EQ(result.exit_code, 128 + SIGINT);
    EXPECT_EQ(Count(result.log, "stopped by signal 2 after step "), 1) << result.log;
    EXPECT_EQ(Count(result.log, "is given up"), give_up ? 1 : 0) << result.log;
    EXPECT_EQ(Count(result.log, "saved "), 1) << result.log;
  }
}

TEST(TrainRanksTest, ValidatesAndExportsOnce) {
  TinyRun run("validates");
  run.WriteText(41);
  const Flags flags = {"--steps=2", "--global_batch=4", "--validation_share=0.3"};
  const TinyResult one =
      run.Train(With(flags, {"--out=" + run.Path("one"), "--metrics=" + run.Path("one.jsonl")}));
  const TinyResult many = run.Train(With(
      flags, {"--ranks=4", "--out=" + run.Path("many"), "--metrics=" + run.Path("many.jsonl")}));
  ASSERT_OK(one.status);
  ASSERT_OK(many.status);
  ExpectEqualLosses({many.metrics.back().at("validation_loss").get<double>()},
                    {one.metrics.back().at("validation_loss").get<double>()});
  const std::string weights = "model/model.safetensors";
  ASSERT_OK_AND_ASSIGN(const SafetensorsFile a,
                       SafetensorsFile::Open(RealFileSystem(), run.Path("one/" + weights)));
  ASSERT_OK_AND_ASSIGN(const SafetensorsFile b,
                       SafetensorsFile::Open(RealFileSystem(), run.Path("many/" + weights)));
  ASSERT_EQ(a.entries().size(), b.entries().size());
  for (const SafetensorsEntry& entry : a.entries()) {
    ASSERT_NE(b.Find(entry.name), nullptr) << entry.name;
    EXPECT_EQ(b.Find(entry.name)->dims, entry.dims);
  }
}

// H3: tokens are those of the update, whatever the ranks: tensor and sequence ranks count none
// twice, recomputation does not raise the utilisation, and rank 0 alone logs. The figures of the
// case itself: trainers/lib/run/figures_test.cc.
TEST(TrainRanksTest, H3_ProgressFigures) {
  TinyRun run("h3");
  run.WriteModel({{"n_layer", 2}});
  run.WriteText(40);
  const double tokens =
      4 * 2 * kTinyRowTokens;  // micro-batch x accumulation x data, a row's tokens
  double flops = 0;            // a token
  for (const Flags& layout :
       std::vector<Flags>{{"--ranks=1", "--micro_batch=4"},
                          {"--mesh=data=2", "--micro_batch=2"},
                          {"--mesh=data=2,tensor=2", "--micro_batch=2"},
                          {"--mesh=data=2,sequence=2", "--micro_batch=2"},
                          {"--mesh=data=2,tensor=2", "--micro_batch=2", "--recompute=block"}}) {
    SCOPED_TRACE(absl::StrCat(layout.front(), " ", layout.back()));
    const TinyResult result =
        run.Train(With(layout, {"--steps=2", "--global_batch=8", "--metrics=" + run.Path("h3")}));
    ASSERT_OK(result.status);
    const double devices = layout[0] == "--ranks=1" ? 1 : layout[0] == "--mesh=data=2" ? 2 : 4;
    for (const nlohmann::json& line : result.metrics) {
      const double seconds = line.at("step_seconds");
      EXPECT_NEAR(line.at("tokens_per_second").get<double>() * seconds, tokens, 1e-6 * tokens);
      EXPECT_EQ(line.at("tokens").get<int64_t>(), static_cast<int64_t>(tokens));
      // The peak of TinyRun is 1e9 flop/s a device.
      const double here =
          line.at("model_flops_utilization").get<double>() * 1e9 * devices * seconds / tokens;
      if (flops == 0) flops = here;
      EXPECT_NEAR(here, flops, 1e-6 * flops);
    }
    EXPECT_EQ(Count(result.log, "flop a token"), 1) << result.log;
  }
}

// E3: the schedule counts applied updates, whatever the ranks.
TEST(TrainRanksTest, E3_LearningRates) {
  TinyRun run("e3");
  const Flags flags = {"--steps=6", "--warmup_steps=2", "--schedule=cosine", "--global_batch=8"};
  std::vector<std::vector<double>> rates;
  for (const Flags& more :
       std::vector<Flags>{{}, {"--ranks=8"}, {"--ranks=2", "--micro_batch=1"}}) {
    const TinyResult result =
        run.Train(With(With(flags, more), {"--metrics=" + run.Path("metrics")}));
    ASSERT_OK(result.status);
    rates.push_back(Numbers(result, "lr"));
  }
  EXPECT_EQ(rates[1], rates[0]);
  EXPECT_EQ(rates[2], rates[0]);
}

}  // namespace
}  // namespace colossus
