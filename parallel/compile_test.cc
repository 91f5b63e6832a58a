#include "parallel/compile.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "base/file_system.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shardformer/initialize.h"
#include "shardformer/presets.h"
#include "tensor/graph/text.h"
#include "tensor/kernels/cpu/cpu_list.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// A preset with two layers: compiling is what is tested, not size.
ModelConfig Small(const char* preset) {
  absl::StatusOr<ModelConfig> config = PresetConfig(preset);
  EXPECT_OK(config);
  config->layers = 2;
  config->windows.resize(2);
  return *std::move(config);
}

Plan PlanOf(int64_t micro_batches) {
  Plan plan;
  plan.micro_batch = 2;
  plan.micro_batches = micro_batches;
  plan.sequence_length = 8;
  plan.precision = {DType::kBF16, DType::kBF16};
  return plan;
}

std::unique_ptr<Device> Null(int64_t memory = INT64_MAX) {
  return NewNullDevice({.memory_bytes = memory, .threads = 2, .kernels = CpuKernels()});
}

// Protects: the order of calls: segments forward and back, micro-batch after micro-batch, then
// measure, then update; the phases at which the host may branch.
TEST(CompileTest, CallsOfAStep) {
  for (int64_t micro_batches : {1, 3}) {
    auto device = Null();
    ASSERT_OK_AND_ASSIGN(CompiledTraining training, CompileTraining(Small("gpt2-tiny"),
                                                                    PlanOf(micro_batches), {},
                                                                    *device));
    const Step& step = training.program->step();
    EXPECT_EQ(step.phases, (std::vector<std::string>{"accumulate", "measure", "update"}));
    int micro_batch = 0;
    for (const Call& call : step.calls) {
      if (call.phase != kAccumulatePhase) {
        EXPECT_EQ(call.micro_batch, -1);
        EXPECT_EQ(step.segments[call.segment].segment.name,
                  call.phase == kMeasurePhase ? "measure" : "update");
        continue;
      }
      EXPECT_GE(call.micro_batch, micro_batch);
      micro_batch = call.micro_batch;
    }
    EXPECT_EQ(micro_batch, micro_batches - 1);
    EXPECT_EQ(step.calls.back().phase, kUpdatePhase);
    // The first and, where sums are rounded, the last have segments of their own; those between
    // share them.
    const size_t sets = micro_batches == 1 ? 1 : 3;
    EXPECT_EQ(step.segments.size(),
              2 + sets * (step.calls.size() - 2) / static_cast<size_t>(micro_batches));
  }
}

// Protects: every parameter is known, and which of them are updated.
TEST(CompileTest, Parameters) {
  auto device = Null();
  const ModelConfig config = Small("llama-tiny");
  ASSERT_OK_AND_ASSIGN(CompiledTraining training,
                       CompileTraining(config, PlanOf(1), {}, *device));
  ASSERT_OK_AND_ASSIGN(std::vector<StateInfo> expected, ModelParameters(config));
  ASSERT_EQ(training.parameters.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(training.parameters[i].name, expected[i].name);
    EXPECT_THAT(training.with_gradients, Contains(expected[i].name));
  }
}

// Protects: recomputation keeps less; a block's results are computed again.
TEST(CompileTest, RecomputationTakesLessMemory) {
  auto device = Null();
  Plan plan = PlanOf(1);
  plan.sequence_length = 128;
  ASSERT_OK_AND_ASSIGN(CompiledTraining keeps,
                       CompileTraining(Small("gpt2-tiny"), plan, {}, *device));
  int64_t most = keeps.program->plan().device_bytes;
  for (Recomputation recomputation :
       {Recomputation::kCheap, Recomputation::kSelective, Recomputation::kBlock}) {
    plan.recomputation = recomputation;
    ASSERT_OK_AND_ASSIGN(CompiledTraining recomputes,
                         CompileTraining(Small("gpt2-tiny"), plan, {}, *device));
    EXPECT_LT(recomputes.program->plan().device_bytes, most);
    EXPECT_EQ(recomputes.program->plan().state_bytes, keeps.program->plan().state_bytes);
    most = recomputes.program->plan().device_bytes;
  }
}

// Protects: what cannot run is refused before memory is taken.
TEST(CompileTest, Refuses) {
  auto small = Null(1 << 20), device = Null();
  EXPECT_THAT(CompileTraining(Small("gpt2-tiny"), PlanOf(1), {}, *small).status(),
              StatusIs(absl::StatusCode::kResourceExhausted));
  Plan plan = PlanOf(0);
  EXPECT_THAT(CompileTraining(Small("gpt2-tiny"), plan, {}, *device).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("micro_batches")));
  EXPECT_THAT(CompileForward(Small("gpt2-tiny"), {.length = 300}, {}, *device).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("300 tokens")));
}

// Protects: dumps: one text per pass and variant, each of which parses, and memory plans.
TEST(CompileTest, Dumps) {
  const std::string folder = JoinPath(::testing::TempDir(), "compile_test.dumps");
  ASSERT_OK(RealFileSystem().RemoveTree(folder));
  auto device = Null();
  TrainingOptions options;
  options.compile.dump_graphs = folder;
  Plan plan = PlanOf(2);
  plan.recomputation = Recomputation::kBlock;
  ASSERT_OK(CompileTraining(Small("llama-tiny"), plan, options, *device).status());
  ASSERT_OK(CompileForward(Small("llama-tiny"), {.length = 4}, options.compile, *device).status());
  ASSERT_OK_AND_ASSIGN(std::vector<std::string> names, RealFileSystem().List(folder));
  EXPECT_THAT(names, AllOf(Contains("train.micro_batch_first.txt"),
                           Contains("train.micro_batch_last.txt"), Contains("train.measure.txt"),
                           Contains("train.update.txt"), Contains(HasSubstr("recompute")),
                           Contains(HasSubstr("forward.")), Contains("train.memory_plan.txt"),
                           Not(Contains("train.micro_batch_only.txt"))));
  for (const std::string& name : names) {
    if (absl::StrContains(name, "memory_plan")) continue;
    ASSERT_OK_AND_ASSIGN(std::string text, RealFileSystem().ReadFile(JoinPath(folder, name)));
    ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(text));
    EXPECT_EQ(ToText(graph), text) << name;
  }
}

// Protects: decoding with caches gives the logits of a run over the whole text. Limit: f32 sums of
// up to 352 products in another order, grown by two layers.
TEST(CompileTest, DecodingGivesTheSameLogits) {
  constexpr int64_t length = 6;
  for (const char* preset : {"gpt2-tiny", "llama-tiny"}) {
    const ModelConfig config = Small(preset);
    auto device = NewHostDevice({.threads = 2, .kernels = CpuKernels()});
    auto make = [&](const ForwardOptions& options) {
      absl::StatusOr<std::unique_ptr<Program>> program =
          CompileForward(config, options, {}, *device);
      EXPECT_OK(program);
      EXPECT_OK((*program)->Allocate());
      for (const StateHome& home : (*program)->plan().states) {
        EXPECT_OK((*program)->WriteState(home.info.name,
                                         InitialValue(home.info, home.type.dtype, 1)));
      }
      return *std::move(program);
    };
    const HostTensor ids = HostTensor::Of<int32_t>({1, length}, {5, 3, 200, 17, 5, 90});
    auto whole = make({.length = length, .loss = false, .logits = true});
    ASSERT_OK_AND_ASSIGN(Fetched all, whole->RunPhase(0, [&](absl::string_view, int) {
      return &ids;
    }));
    const HostTensor& expected = all.at({"logits", 0});
    auto step = make({.length = 1, .loss = false, .logits = true, .cache_capacity = 16});
    for (int32_t t = 0; t < length; ++t) {
      const HostTensor id = HostTensor::Of<int32_t>({1, 1}, {static_cast<int32_t>(ids.Get(t))});
      const HostTensor position = HostTensor::Of<int32_t>({1, 1}, {t});
      const HostTensor filled = HostTensor::Of<int32_t>({1}, {t});
      ASSERT_OK_AND_ASSIGN(Fetched one, step->RunPhase(0, [&](absl::string_view name, int) {
        return name == "input_ids" ? &id : name == "positions" ? &position : &filled;
      }));
      for (int64_t v = 0; v < config.vocabulary; ++v) {
        EXPECT_LE(std::abs(one.at({"logits", 0}).Get(v) - expected.Get(t * config.vocabulary + v)),
                  1e-5)
            << preset << " " << t;
      }
    }
  }
}

}  // namespace
}  // namespace colossus
