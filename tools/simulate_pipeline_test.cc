#include "tools/simulate_pipeline.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace colossus {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

SimulatorOutput Simulated(const std::string& arguments) {
  return RunSimulator(absl::StrSplit(arguments, ' ', absl::SkipEmpty()), RealFileSystem());
}

nlohmann::json Result(const std::string& arguments) {
  SimulatorOutput output = Simulated(arguments);
  EXPECT_EQ(output.exit_status, 0) << output.errors;
  EXPECT_EQ(output.errors, "");
  EXPECT_THAT(output.results, EndsWith("}\n"));
  return nlohmann::json::parse(output.results);
}

// The message of a refusal.
std::string Refusal(const std::string& arguments) {
  SimulatorOutput output = Simulated(arguments);
  EXPECT_EQ(output.exit_status, 2) << arguments;
  EXPECT_EQ(output.results, "") << arguments;
  EXPECT_THAT(output.errors, StartsWith("error: "));
  EXPECT_THAT(output.errors, EndsWith("\n"));
  return output.errors;
}

TEST(SimulatePipelineTest, PrintsOneLineOfFigures) {
  SimulatorOutput output = Simulated(
      "--schedule=zb-h1 --stages=8 --micro_batches=24 --chunks=1 --forward_ms=18.522 "
      "--backward_input_ms=18.086 --backward_weight_ms=9.337 --communication_ms=0.601");
  EXPECT_EQ(output.exit_status, 0);
  EXPECT_EQ(output.results,
            "{\"makespan_ms\":1310.405,\"span_ms\":1310.405,\"bubble_rate\":0.158519694293,"
            "\"peak_activations\":[8.0,8.0,8.0,8.0,8.0,8.0,8.0,8.0],\"messages\":336}\n");
}

TEST(SimulatePipelineTest, TimesAreOneUnlessGivenAndChunksTheSchedules) {
  nlohmann::json result = Result("--schedule zb-v --stages 4 --micro_batches 8");
  EXPECT_EQ(result["makespan_ms"], 25.5);
  EXPECT_EQ(result["span_ms"], 24);
  EXPECT_EQ(result["bubble_rate"], 0);
  EXPECT_THAT(result["peak_activations"], ElementsAre(4, 4, 4, 4));
  EXPECT_EQ(result["messages"], 96);
  EXPECT_EQ(Result("--schedule=interleaved --stages=4 --micro_batches=8 --chunks=2")["span_ms"],
            28.5);
  EXPECT_EQ(Result("--schedule=1f1b --stages=4 --micro_batches=8")["span_ms"], 33);
}

TEST(SimulatePipelineTest, SearchedKeepsToTheLimit) {
  std::string arguments = "--schedule=searched --stages=4 --micro_batches=8 --memory_limit=";
  nlohmann::json four = Result(arguments + "4"), seven = Result(arguments + "7");
  EXPECT_EQ(four["span_ms"], 27);
  EXPECT_EQ(seven["span_ms"], 24);
  for (double peak : four["peak_activations"]) EXPECT_LE(peak, 4);
  // Shares: after backward-input a quarter is kept.
  nlohmann::json shared =
      Result("--schedule=zb-h2 --stages=2 --micro_batches=6 --weight_activation=0.25");
  EXPECT_THAT(shared["peak_activations"], ElementsAre(3, 1.5));
}

TEST(SimulatePipelineTest, TheObjectiveIsSpanOrMakespan) {
  std::string arguments =
      "--schedule=searched --stages=3 --micro_batches=3 --forward_ms=1 --backward_input_ms=2 "
      "--backward_weight_ms=2 ";
  double span = Result(arguments + "--objective=span")["span_ms"];
  EXPECT_EQ(Result(arguments)["span_ms"], span);
  nlohmann::json makespan = Result(arguments + "--objective=makespan");
  EXPECT_LE(span, makespan["span_ms"]);
  EXPECT_LE(makespan["makespan_ms"], Result(arguments)["makespan_ms"]);
}

TEST(SimulatePipelineTest, WritesTimelines) {
  for (const char* ending : {"txt", "svg", "json"}) {
    std::string path = absl::StrCat(std::getenv("TEST_TMPDIR"), "/timeline.", ending);
    Result("--schedule=1f1b --stages=2 --micro_batches=2 --timeline=" + path);
    ASSERT_OK_AND_ASSIGN(std::string text, RealFileSystem().ReadFile(path));
    EXPECT_THAT(text, HasSubstr("stage 1")) << ending;
  }
  const std::string good = "--schedule=1f1b --stages=2 --micro_batches=2 --timeline=";
  EXPECT_THAT(Refusal(good + "/nowhere/at/all.svg"),
              HasSubstr("--timeline=/nowhere/at/all.svg cannot be written"));
  const std::string folder = absl::StrCat(std::getenv("TEST_TMPDIR"), "/folder.txt");
  ASSERT_OK(RealFileSystem().MakeDirs(folder));
  EXPECT_THAT(Refusal(good + folder), HasSubstr("it is a folder"));
  EXPECT_FALSE(RealFileSystem().Exists(folder + ".tmp"));
}

TEST(SimulatePipelineTest, HelpListsFlagsAndSchedules) {
  SimulatorOutput output = Simulated("--stages=2 --help");
  EXPECT_EQ(output.exit_status, 0);
  for (const char* word : {"--micro_batches", "--memory_limit", "searched", "v-half"}) {
    EXPECT_THAT(output.results, HasSubstr(word));
  }
}

TEST(SimulatePipelineTest, RefusesWhatItDoesNotKnow) {
  const std::string good = "--schedule=1f1b --stages=4 --micro_batches=8 ";
  EXPECT_THAT(Refusal(""), HasSubstr("--schedule is needed"));
  EXPECT_THAT(Refusal("--schedule=1f1b"), HasSubstr("--stages is needed"));
  EXPECT_THAT(Refusal("--schedule=1f1b --stages=2"), HasSubstr("--micro_batches is needed"));
  EXPECT_THAT(Refusal(good + "--chunk=2"),
              HasSubstr("unknown flag --chunk (did you mean chunks?)"));
  EXPECT_THAT(Refusal(good + "more"), HasSubstr("'more' is no flag"));
  EXPECT_THAT(Refusal(good + "--stages=5"), HasSubstr("--stages is given twice"));
  EXPECT_THAT(Refusal(good + "--chunks"), HasSubstr("--chunks has no value"));
  EXPECT_THAT(Refusal(good + "--chunks=0"), HasSubstr("--chunks=0: the value is a whole number"));
  EXPECT_THAT(Refusal(good + "--chunks=1.5"), HasSubstr("--chunks=1.5"));
  EXPECT_THAT(Refusal(good + "--chunks=99999999999"),
              HasSubstr("a whole number from 1 to 2147483647"));
  EXPECT_THAT(Refusal(good + "--forward_ms=-1"), HasSubstr("--forward_ms=-1: the value is milli"));
  EXPECT_THAT(Refusal(good + "--forward_ms=nan"), HasSubstr("--forward_ms=nan"));
  EXPECT_THAT(Refusal(good + "--forward_ms=inf"), HasSubstr("--forward_ms=inf"));
  EXPECT_THAT(Refusal(good + "--forward_ms=1e308"), HasSubstr("from 0 to 1e12"));
  EXPECT_THAT(Refusal(good + "--forward_ms=1ms"), HasSubstr("--forward_ms=1ms"));
  EXPECT_THAT(Refusal(good + "--memory_limit=0"), HasSubstr("a number over 0"));
  EXPECT_THAT(Refusal(good + "--memory_limit=nan"), HasSubstr("a number over 0"));
  EXPECT_THAT(Refusal(good + "--weight_activation=2"), HasSubstr("a number from 0 to 1"));
  EXPECT_THAT(Refusal(good + "--timeline=x.png"), HasSubstr("ends in .txt, .svg or .json"));
  EXPECT_THAT(Refusal(good + "--objective=span"), HasSubstr("no effect on schedule 1f1b"));
  EXPECT_THAT(Refusal(good + "--objective=time"), HasSubstr("span or makespan"));
  EXPECT_THAT(Refusal(good + "--weight_activation=0.5"), HasSubstr("no effect on schedule 1f1b"));
  EXPECT_THAT(Refusal("--schedule=zbh1 --stages=4 --micro_batches=8"),
              HasSubstr("(did you mean zb-h1?); there are gpipe, "));
  EXPECT_THAT(Refusal(good + "--forward_ms=0 --backward_input_ms=0 --backward_weight_ms=0"),
              HasSubstr("nothing takes time"));
  EXPECT_THAT(Refusal("--schedule=1f1b --stages=100000 --micro_batches=100000"),
              HasSubstr("at most 2000000 can be simulated"));
}

TEST(SimulatePipelineTest, RefusesWhatTheScheduleDoesNotDefine) {
  EXPECT_THAT(Refusal("--schedule=interleaved --stages=4 --micro_batches=10"),
              HasSubstr("use micro_batches=8 or 12"));
  EXPECT_THAT(Refusal("--schedule=zb-v --stages=4 --micro_batches=8 --chunks=1"),
              HasSubstr("use chunks=2"));
  EXPECT_THAT(Refusal("--schedule=zb-h1 --stages=4 --micro_batches=8 --memory_limit=3"),
              HasSubstr("memory_limit 3 is under the 4 that schedule zb-h1 keeps"));
  EXPECT_THAT(Refusal("--schedule=searched --stages=4 --micro_batches=8 --memory_limit=0.5"),
              HasSubstr("raise it to 1 or more"));
}

}  // namespace
}  // namespace colossus
