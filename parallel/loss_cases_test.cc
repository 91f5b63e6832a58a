// FIELD-CASES B4: what the loss of a large vocabulary takes, and that its chunks change nothing.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "parallel/plan.h"
#include "parallel/training_program.h"
#include "shardformer/config.h"
#include "tensor/exec/device.h"
#include "tensor/exec/program.h"
#include "tensor/exec/step.h"
#include "tensor/graph/builder.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/ops/loss.h"

namespace colossus {
namespace {

// ---- 8192 tokens and a vocabulary of 151,936, planned.

constexpr int64_t kVocabulary = 151'936, kRows = 8, kLength = 1024;

ModelConfig LargeVocabulary() {
  const nlohmann::json json = {{"model_type", "gpt2"}, {"vocab_size", kVocabulary},
                               {"n_layer", 1},         {"n_head", 2},
                               {"n_embd", 64},         {"n_positions", kLength}};
  absl::StatusOr<ModelConfig> config = ReadModelConfig(json, "config.json");
  CHECK(config.ok()) << config.status();
  return *std::move(config);
}

// Of the instructions that compute the loss: workspace, and the largest result of all others.
struct WorkingSet {
  int64_t loss = 0, others = 0;
};

WorkingSet PlanLoss(int64_t micro_batches) {
  Plan plan;
  plan.micro_batch = kRows;
  plan.micro_batches = micro_batches;
  plan.sequence_length = kLength;
  plan.precision = {DType::kBF16, DType::kBF16};
  const std::unique_ptr<Device> device = NewNullDevice({.threads = 2, .kernels = CpuKernels()});
  const auto training = TrainingProgram::Make(LargeVocabulary(), plan, {}, *device);
  CHECK(training.ok()) << training.status();
  const Program& program = (*training)->program();
  WorkingSet set;
  for (const Instruction& instruction : program.plan().instructions) {
    if (instruction.kind != InstructionKind::kKernel) continue;
    const Graph& graph = program.step().graph_of(program.step().calls[instruction.call]);
    const bool loss = graph.node(instruction.node).op == &LinearCrossEntropyOp();
    int64_t& most = loss ? set.loss : set.others;
    most = std::max(most, instruction.workspace.bytes);
    for (const BufferRange& range : instruction.results) {
      if (!loss) most = std::max(most, range.bytes);
    }
  }
  return set;
}

TEST(LossCases, B4WorkingSetIsOneChunk) {
  const WorkingSet one = PlanLoss(1), many = PlanLoss(16);
  constexpr int64_t kChunkBytes = kLossChunk * kVocabulary * 4;  // 0.580 GiB
  EXPECT_EQ(kChunkBytes, 622'329'856);
  // Beside it: a loss for each token, and what products pack of their operands.
  EXPECT_LE(one.loss, kChunkBytes + (int64_t{8} << 20));
  EXPECT_GT(one.loss, kChunkBytes / 2);
  EXPECT_EQ(many.loss, one.loss);
  // Nobody else makes the whole logits either.
  EXPECT_LT(one.others, kRows * kLength * kVocabulary);
  EXPECT_LT(many.others, kRows * kLength * kVocabulary);
}

// ---- 64 tokens and a vocabulary of 1,024, computed.

using Results = std::vector<std::vector<double>>;

absl::StatusOr<Results> RunLoss(int64_t chunk, const std::map<std::string, HostTensor>& feeds) {
  GraphBuilder builder("loss");
  ValueIds operands;
  for (const char* name : {"x", "w", "labels", "seed"}) {
    operands.push_back(builder.Feed(name, feeds.at(name).type()));
  }
  const ValueIds results = builder.Apply(LinearCrossEntropyOp(), operands,
                                         {{"chunk", chunk}, {"with", Strings{"seed"}}}, "y");
  StepSegment segment;
  segment.fetched = {"loss", "dx", "dw"};
  builder.Output("loss", results[0]);
  builder.Output("dx", results[1]);
  builder.Output("dw", results[2]);
  ASSIGN_OR_RETURN(Graph graph, std::move(builder).Build());
  segment.segment = {"loss", std::make_shared<const Graph>(std::move(graph))};
  StepBuilder steps({"loss"});
  steps.AddCall(steps.AddSegment(segment), -1, 0);
  ASSIGN_OR_RETURN(Step step, std::move(steps).Build());
  const std::unique_ptr<Device> device = NewHostDevice({.kernels = CpuKernels()});
  ASSIGN_OR_RETURN(const std::unique_ptr<Program> program,
                   Program::Compile(std::move(step), *device, {}));
  RETURN_IF_ERROR(program->Allocate());
  ASSIGN_OR_RETURN(const Fetched fetched, program->RunPhase(0, [&](absl::string_view name, int) {
    return &feeds.at(std::string(name));
  }));
  Results values;
  for (const std::string& name : segment.fetched) {
    values.push_back(fetched.at({name, -1}).ToDoubles());
  }
  return values;
}

TEST(LossCases, B4ChunksChangeNothing) {
  std::mt19937_64 random(4);
  std::normal_distribution<float> normal;
  std::map<std::string, HostTensor> feeds;
  feeds["x"] = HostTensor(Type{DType::kF32, {64, 48}});
  feeds["w"] = HostTensor(Type{DType::kF32, {1024, 48}});
  for (const char* name : {"x", "w"}) {
    for (float& value : feeds[name].data<float>()) value = 0.3f * normal(random);
  }
  feeds["labels"] = HostTensor(Type{DType::kI32, {64}});
  for (int32_t& label : feeds["labels"].data<int32_t>()) {
    label = static_cast<int32_t>(random() % 1024);
  }
  feeds["labels"].Set(5, kIgnoreLabel);
  feeds["seed"] = HostTensor::Of<float>({}, {1.0f / 64});
  ASSERT_OK_AND_ASSIGN(const Results whole, RunLoss(64, feeds));
  ASSERT_OK_AND_ASSIGN(const Results chunks, RunLoss(8, feeds));
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_TRUE(TensorNear(chunks[i], whole[i], {.relative_l2 = 1e-6})) << i;
  }
}

}  // namespace
}  // namespace colossus
