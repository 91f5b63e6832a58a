// Layer-wise updates: the losses and parameters of whole ones, with the gradients of one block.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "collectives/mesh.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "parallel/compile.h"
#include "parallel/plan.h"
#include "parallel/training_program.h"
#include "shardformer/config.h"
#include "shardformer/initialize.h"
#include "shardformer/presets.h"
#include "tensor/exec/device.h"
#include "tensor/kernels/collective/collective_kernels.h"
#include "tensor/kernels/cpu/cpu_list.h"

namespace colossus {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kLength = 12;

ModelConfig Small(const std::string& preset, int layers = 3) {
  absl::StatusOr<ModelConfig> config = PresetConfig(preset);
  EXPECT_OK(config.status());
  config->layers = layers;
  config->windows.resize(static_cast<size_t>(layers));
  config->vocabulary = 61;
  return *std::move(config);
}

Plan PlanOf(UpdateTime update, int64_t micro_batches, DType compute) {
  Plan plan;
  plan.micro_batch = 2;
  plan.micro_batches = micro_batches;
  plan.sequence_length = kLength;
  plan.precision = {compute, compute};
  plan.update = update;
  return plan;
}

UpdateInput InputOf(int64_t micro_batches, int64_t step) {
  std::mt19937_64 random(TestSeed() + static_cast<uint64_t>(step));
  UpdateInput input;
  for (int64_t m = 0; m < micro_batches; ++m) {
    MicroBatch batch;
    batch.input_ids = batch.labels = HostTensor(Type{DType::kI32, {2, kLength}});
    for (int64_t i = 0; i < 2 * kLength; ++i) {
      batch.input_ids.Set(i, static_cast<double>(random() % 61));
      batch.labels.Set(i, random() % 8 == 0 ? -100 : static_cast<double>(random() % 61));
    }
    batch.first_row = 2 * m;
    input.micro_batches.push_back(std::move(batch));
  }
  input.learning_rate = 0.01;
  input.applied = input.step = step;
  return input;
}

class Job {
 public:
  Job(const ModelConfig& config, const Plan& plan)
      : device_(NewHostDevice({.kernels = CpuKernels()})) {
    TrainingOptions options;
    options.fetch_gradients = true;
    options.compile.program.poison = true;
    absl::StatusOr<std::unique_ptr<TrainingProgram>> made =
        TrainingProgram::Make(config, plan, options, *device_);
    EXPECT_OK(made.status());
    training_ = *std::move(made);
    EXPECT_OK(training_->Allocate());
  }

  void SetParameters(double scale) {
    for (const StateInfo& info : training_->parameters()) {
      HostTensor value = InitialValue(info, DType::kF32, TestSeed());
      for (int64_t i = 0; scale != 1 && i < value.type().elements(); ++i) {
        value.Set(i, value.Get(i) * scale);
      }
      EXPECT_OK(training_->SetParameter(info.name, value));
    }
  }

  HostTensors States() {
    HostTensors states;
    for (const StateHome& home : training_->states()) {
      absl::StatusOr<HostTensor> value = training_->program().ReadState(home.info.name);
      EXPECT_OK(value.status());
      states[home.info.name] = *std::move(value);
    }
    return states;
  }

  TrainingProgram* operator->() { return training_.get(); }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<TrainingProgram> training_;
};

void ExpectTheSame(const ModelConfig& config, Plan plan) {
  plan.update = UpdateTime::kWhole;
  Job whole(config, plan);
  plan.update = UpdateTime::kLayerwise;
  Job layerwise(config, plan);
  whole.SetParameters(1);
  layerwise.SetParameters(1);
  for (int64_t step = 0; step < 2; ++step) {
    const UpdateInput input = InputOf(plan.micro_batches, step);
    ASSERT_OK_AND_ASSIGN(const UpdateResult a, whole->RunUpdate(input));
    ASSERT_OK_AND_ASSIGN(const UpdateResult b, layerwise->RunUpdate(input));
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(b.skipped, "");
    // Squares of blocks are added in another order, in f64: n additions, of positive numbers.
    EXPECT_LE(std::abs(a.grad_norm - b.grad_norm), 1e-12 * a.grad_norm);
    EXPECT_TRUE(a.gradients == b.gradients);
    EXPECT_TRUE(whole.States() == layerwise.States());
  }
}

// Protects: tied tables, whose gradient is complete last, and untied ones; sums over micro-batches;
// recomputation, whose clones read parameters late.
TEST(LayerwiseUpdateTest, GivesTheBitsOfWholeUpdates) {
  for (const char* preset : {"gpt2-tiny", "llama-tiny"}) {
    for (int64_t micro_batches : {1, 3}) {
      SCOPED_TRACE(absl::StrCat(preset, " ", micro_batches));
      Plan plan = PlanOf(UpdateTime::kWhole, micro_batches, DType::kBF16);
      plan.recomputation = micro_batches == 1 ? Recomputation::kBlock : Recomputation::kNone;
      ExpectTheSame(Small(preset, 2), plan);
      if (micro_batches == 1) continue;
      plan.accumulation_order = AccumulationOrder::kHorizontal;
      plan.precision = {DType::kF32, DType::kF32};
      ExpectTheSame(Small(preset, 2), plan);
    }
  }
}

// Protects: gradients of one block at a time; twice the layers take no more beyond their states.
// On ranks too, whose shards are small beside the gathered and unsummed chunks of two blocks.
TEST(LayerwiseUpdateTest, KeepsTheGradientsOfOneBlock) {
  ASSERT_OK_AND_ASSIGN(const Mesh mesh, Mesh::Make({{"data", 2}}));
  const CollectiveKernels kernels(mesh, CpuKernels());  // of ranks that are not there
  auto null = NewNullDevice({.kernels = kernels.list()});
  auto beyond_states = [&](UpdateTime update, int layers, int64_t micro_batches, int zero = -1) {
    Plan plan = PlanOf(update, micro_batches, DType::kBF16);
    if (zero >= 0) plan.stages[0] = {{0, 1}, {{"data", 2}}};
    plan.zero = std::max(zero, 0);
    plan.micro_batch = 1;
    plan.sequence_length = 2;  // next to no activations
    absl::StatusOr<CompiledTraining> training =
        CompileTraining(Small("gpt2-tiny", layers), plan, {}, *null);
    EXPECT_OK(training.status());
    const MemoryPlan& memory = training->program->plan();
    return memory.device_bytes - memory.state_bytes;
  };
  for (int64_t micro_batches : {1, 4}) {
    SCOPED_TRACE(micro_batches);
    const int64_t few = beyond_states(UpdateTime::kLayerwise, 4, micro_batches);
    const int64_t many = beyond_states(UpdateTime::kLayerwise, 8, micro_batches);
    const int64_t whole_few = beyond_states(UpdateTime::kWhole, 4, micro_batches);
    const int64_t whole_many = beyond_states(UpdateTime::kWhole, 8, micro_batches);
    EXPECT_LT(few, whole_few / 2);
    EXPECT_LT(many - few, (whole_many - whole_few) / 10);
    for (int zero : {0, 3}) {
      SCOPED_TRACE(absl::StrCat("ZeRO ", zero));
      const int64_t more = beyond_states(UpdateTime::kLayerwise, 8, micro_batches, zero) -
                           beyond_states(UpdateTime::kLayerwise, 4, micro_batches, zero);
      const int64_t whole_more = beyond_states(UpdateTime::kWhole, 8, micro_batches, zero) -
                                 beyond_states(UpdateTime::kWhole, 4, micro_batches, zero);
      EXPECT_LT(more, whole_more / 10);
    }
  }
}

TEST(LayerwiseUpdateTest, Refuses) {
  const ModelConfig config = Small("gpt2-tiny");
  Plan plan = PlanOf(UpdateTime::kLayerwise, 1, DType::kF16);
  EXPECT_THAT(Validate(plan, config), StatusIs(absl::StatusCode::kInvalidArgument,
                                               AllOf(HasSubstr("fp16"), HasSubstr("bf16"))));
  plan.precision = {DType::kF32, DType::kF32};
  plan.stages.push_back({{1}, {}});
  EXPECT_THAT(Validate(plan, config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("one stage, there are 2"), HasSubstr("update=whole"))));
  Job job(config, PlanOf(UpdateTime::kLayerwise, 1, DType::kF32));
  job.SetParameters(1);
  const HostTensors before = job.States();
  UpdateInput input = InputOf(1, 0);
  input.clip_norm = 1;
  EXPECT_THAT(job->RunUpdate(input).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("without clipping")));
  input.clip_norm = 0;
  input.loss_scale = 2;
  EXPECT_EQ(job->RunUpdate(input).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(job.States() == before);
}

TEST(LayerwiseUpdateTest, AGradientThatIsNotFiniteEndsTheRun) {
  Job job(Small("gpt2-tiny"), PlanOf(UpdateTime::kLayerwise, 1, DType::kF32));
  job.SetParameters(1e30);
  EXPECT_THAT(job->RunUpdate(InputOf(1, 0)).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("newest checkpoint")));
}

}  // namespace
}  // namespace colossus
