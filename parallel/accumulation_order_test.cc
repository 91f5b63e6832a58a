// What the order of micro-batches does to what streams: vertically a parameter comes once for a
// block and update, however many micro-batches there are.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/testing/status_matchers.h"
#include "gemini/placement.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "parallel/compile.h"
#include "shardformer/presets.h"
#include "tensor/exec/device.h"
#include "tensor/exec/timeline.h"
#include "tensor/kernels/cpu/cpu_list.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Layers whose parameters are large beside a row's activations.
ModelConfig Deep(int layers = 8) {
  absl::StatusOr<ModelConfig> config = PresetConfig("gpt2-tiny");
  EXPECT_OK(config);
  config->layers = layers;
  config->windows.resize(static_cast<size_t>(layers));
  return *std::move(config);
}

absl::StatusOr<std::unique_ptr<Program>> Compiled(int64_t micro_batches, AccumulationOrder order,
                                                  int64_t memory,
                                                  std::vector<std::string>* choices = nullptr) {
  Plan plan;
  plan.micro_batches = micro_batches;
  plan.sequence_length = 2;
  plan.precision = {DType::kBF16, DType::kBF16};
  plan.accumulation_order = order;
  TrainingOptions options;
  if (memory < INT64_MAX) {
    options.compile.program.placer = std::make_shared<GeminiPlacer>(GeminiOptions{});
  }
  auto device = NewNullDevice({.memory_bytes = memory, .threads = 1, .kernels = CpuKernels()});
  absl::StatusOr<CompiledTraining> training = CompileTraining(Deep(12), plan, options, *device);
  if (!training.ok()) return training.status();
  if (choices != nullptr) *choices = training->choices;
  return std::move(training->program);
}

int64_t ParametersIn(const Program& program) {
  const TierTraffic traffic = TrafficOf(program.plan(), kAccumulatePhase);
  return traffic.host_to_device[static_cast<size_t>(Moved::kParameters)];
}

TEST(AccumulationOrderTest, TrafficIsFlatInMicroBatches) {
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Program> plain,
                       Compiled(1, AccumulationOrder::kHorizontal, INT64_MAX));
  // Parameters are 2 of 14 bytes of state; half of them fit.
  const int64_t parameters = plain->plan().state_bytes / 7, memory = parameters / 2;
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Program> once,
                       Compiled(1, AccumulationOrder::kVertical, memory));
  EXPECT_GT(ParametersIn(*once), parameters / 2);
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Program> vertical,
                       Compiled(4, AccumulationOrder::kVertical, memory));
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Program> horizontal,
                       Compiled(4, AccumulationOrder::kHorizontal, memory));
  std::vector<std::string> choices;
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Program> chosen,
                       Compiled(4, AccumulationOrder::kAuto, memory, &choices));
  // Activations of more micro-batches leave less room for parameters, so a few come twice.
  EXPECT_LE(ParametersIn(*vertical), 3 * ParametersIn(*once));
  EXPECT_GT(ParametersIn(*horizontal), 2 * parameters);
  EXPECT_LT(BytesOverLink(*vertical), BytesOverLink(*horizontal));
  EXPECT_EQ(BytesOverLink(*chosen), BytesOverLink(*vertical));
  EXPECT_THAT(choices,
              ElementsAre(absl::StrCat("accumulation_order=auto chose vertical: an update moves ",
                                       BytesOverLink(*vertical),
                                       " bytes over the link, horizontal moves ",
                                       BytesOverLink(*horizontal), " bytes over the link")));
  ASSERT_OK(Compiled(4, AccumulationOrder::kVertical, memory, &choices).status());
  EXPECT_THAT(choices, IsEmpty());
  ASSERT_OK(Compiled(4, AccumulationOrder::kAuto, INT64_MAX, &choices).status());
  EXPECT_THAT(choices, ElementsAre("accumulation_order=auto chose horizontal: nothing streams"));
}

// Protects: recomputation that is chosen computes nothing again where all fits, and what fits and
// is predicted to be fastest where it does not.
TEST(AccumulationOrderTest, RecomputationIsChosen) {
  Plan plan;
  plan.micro_batch = 4;
  plan.sequence_length = 256;
  plan.precision = {DType::kBF16, DType::kBF16};
  auto compile = [&](Recomputation recomputation, int64_t memory) {
    plan.recomputation = recomputation;
    auto device = NewNullDevice({.memory_bytes = memory, .threads = 1, .kernels = CpuKernels()});
    return CompileTraining(Deep(), plan, {}, *device);
  };
  auto need = [&](Recomputation recomputation) {
    return compile(recomputation, INT64_MAX)->program->plan().device_bytes;
  };
  auto seconds = [](const CompiledTraining& training) {
    return PredictPhases(*training.program, {kAccumulatePhase, kMeasurePhase, kUpdatePhase})
        .seconds;
  };
  const Recomputation ways[] = {Recomputation::kNone, Recomputation::kCheap,
                                Recomputation::kSelective, Recomputation::kBlock};
  for (Recomputation way : ways) {
    ASSERT_OK_AND_ASSIGN(CompiledTraining chosen, compile(Recomputation::kAuto, need(way)));
    ASSERT_OK_AND_ASSIGN(CompiledTraining same, compile(way, need(way)));
    EXPECT_LE(seconds(chosen), seconds(same)) << Name(way);
    ASSERT_EQ(chosen.choices.size(), 1);
    if (way == Recomputation::kNone) {
      EXPECT_EQ(Name(chosen.recomputation), Name(way));
      EXPECT_THAT(chosen.choices[0], AllOf(HasSubstr("recompute=auto chose none: "),
                                           HasSubstr("where all fits and nothing moves")));
    }
  }
  // Between two ways a mixture of them is faster than either that fits.
  const int64_t between =
      (need(Recomputation::kSelective) + need(Recomputation::kCheap)) / 2;
  ASSERT_OK_AND_ASSIGN(CompiledTraining mixed, compile(Recomputation::kAuto, between));
  ASSERT_OK_AND_ASSIGN(CompiledTraining uniform, compile(Recomputation::kSelective, between));
  EXPECT_EQ(Name(mixed.recomputation), "optimal");
  EXPECT_GT(mixed.recompute_budget_bytes, 0);
  ASSERT_EQ(mixed.choices.size(), 1);
  EXPECT_THAT(mixed.choices[0],
              AllOf(HasSubstr(absl::StrCat("recompute=auto chose optimal with a budget of ",
                                           mixed.recompute_budget_bytes, " bytes: ")),
                    HasSubstr(" s an update as predicted; none does not fit, cheap does not fit, "
                              "selective "),
                    HasSubstr(", the best of ")));
  EXPECT_LT(seconds(mixed), seconds(uniform));
  EXPECT_EQ(compile(Recomputation::kAuto, need(Recomputation::kBlock) / 2).status().code(),
            absl::StatusCode::kResourceExhausted);
}

// Protects: under a placer activations are kept, moved or made again, whatever is fastest: never
// slower than one way for all layers.
TEST(AccumulationOrderTest, RecomputationCompetesWithOffload) {
  Plan plan;
  plan.micro_batch = 4;
  plan.sequence_length = 256;
  plan.precision = {DType::kBF16, DType::kBF16};
  auto compile = [&](Recomputation recomputation, int64_t memory, double link) {
    plan.recomputation = recomputation;
    TrainingOptions options;
    options.compile.program.placer =
        std::make_shared<GeminiPlacer>(GeminiOptions{.link_bytes_per_second = link});
    options.compile.program.transfer_rates.link_bytes_per_second = link;
    auto device = NewNullDevice({.memory_bytes = memory,
                                 .threads = 1,
                                 .kernels = CpuKernels(),
                                 .copy_bytes_per_second = link});
    absl::StatusOr<CompiledTraining> training = CompileTraining(Deep(), plan, options, *device);
    EXPECT_OK(training.status());
    const PhaseTime time =
        PredictPhases(*training->program, {kAccumulatePhase, kMeasurePhase, kUpdatePhase});
    return std::make_pair(time.seconds, training->recompute_budget_bytes);
  };
  int64_t budgets[2] = {};
  for (int fast = 0; fast < 2; ++fast) {
    const double link = fast == 1 ? 50e9 : 0.5e9;
    const auto [seconds, budget] = compile(Recomputation::kOptimal, 15'000'000, link);
    for (Recomputation way : {Recomputation::kNone, Recomputation::kBlock}) {
      EXPECT_LE(seconds, compile(way, 15'000'000, link).first) << Name(way) << " " << link;
    }
    budgets[fast] = budget;
  }
  // What is cheap to move is kept.
  EXPECT_GT(budgets[1], budgets[0]);
}

}  // namespace
}  // namespace colossus
