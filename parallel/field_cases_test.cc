// Field cases of one update: A1, A2, A15, E4.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/status.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gemini/placement.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "parallel/training_program.h"
#include "shardformer/config.h"
#include "shardformer/initialize.h"
#include "tensor/exec/device.h"
#include "tensor/exec/program.h"
#include "tensor/exec/step.h"
#include "tensor/graph/builder.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/ops/loss.h"
#include "tensor/optim/update.h"

namespace colossus {
namespace {

constexpr int64_t kLength = 8;

ModelConfig TinyConfig(const std::string& family, int64_t vocabulary) {
  nlohmann::json json = {{"model_type", family}, {"vocab_size", vocabulary}};
  if (family == "gpt2") {
    json.update({{"n_layer", 1}, {"n_head", 2}, {"n_embd", 16}, {"n_positions", 16},
                 {"attn_pdrop", 0.0}, {"embd_pdrop", 0.0}, {"resid_pdrop", 0.0}});
  } else {
    json.update({{"num_hidden_layers", 1}, {"num_attention_heads", 2},
                 {"num_key_value_heads", 1}, {"hidden_size", 16}, {"intermediate_size", 24},
                 {"max_position_embeddings", 16}});
  }
  auto config = ReadModelConfig(json, "config.json");
  CHECK(config.ok()) << config.status().ToString();
  return *std::move(config);
}

// A training program with its device, random first values, and its states.
struct Trainer {
  std::unique_ptr<Device> device;
  std::unique_ptr<TrainingProgram> program;

  std::map<std::string, HostTensor> States() {
    std::map<std::string, HostTensor> states;
    for (const StateHome& home : program->states()) {
      states.emplace(home.info.name, *program->program().ReadState(home.info.name));
    }
    return states;
  }
};

absl::StatusOr<Trainer> MakeTrainer(const ModelConfig& config, int64_t micro_batch,
                                    int64_t micro_batches, const Optimizer& optimizer = {}) {
  Trainer trainer;
  trainer.device = NewHostDevice({.kernels = CpuKernels()});
  Plan plan;
  plan.micro_batch = micro_batch;
  plan.micro_batches = micro_batches;
  plan.sequence_length = kLength;
  TrainingOptions options;
  options.optimizer = optimizer;
  options.fetch_gradients = true;
  ASSIGN_OR_RETURN(trainer.program,
                   TrainingProgram::Make(config, plan, options, *trainer.device));
  RETURN_IF_ERROR(trainer.program->Allocate());
  for (const StateInfo& info : trainer.program->parameters()) {
    RETURN_IF_ERROR(
        trainer.program->SetParameter(info.name, InitialValue(info, DType::kF32, /*seed=*/3)));
  }
  return trainer;
}

// Rows of ids from `seed`; in row r the first counting[r] positions have a target.
MicroBatch Rows(int seed, const std::vector<int64_t>& counting, int64_t vocabulary) {
  std::vector<int32_t> ids, labels;
  for (size_t r = 0; r < counting.size(); ++r) {
    for (int64_t t = 0; t < kLength; ++t) {
      const int64_t at = seed + 11 * static_cast<int64_t>(r) + t;
      ids.push_back(static_cast<int32_t>(at * at % vocabulary));
      labels.push_back(t < counting[r] ? static_cast<int32_t>((at + 5) * at % vocabulary)
                                       : kIgnoreLabel);
    }
  }
  const Dims dims = {static_cast<int64_t>(counting.size()), kLength};
  return {HostTensor::Of<int32_t>(dims, ids), HostTensor::Of<int32_t>(dims, labels), {}, {}, 0};
}

// The mean gradients of an update, as vectors by name.
std::map<std::string, std::vector<double>> Means(const UpdateResult& result) {
  std::map<std::string, std::vector<double>> means;
  for (const auto& item : result.gradients) {
    std::vector<double> values = item.second.ToDoubles();
    for (double& value : values) value *= result.gradient_scale;
    means[item.first.first] = std::move(values);
  }
  return means;
}

void ExpectNear(const std::map<std::string, std::vector<double>>& actual,
                const std::map<std::string, std::vector<double>>& expected) {
  ASSERT_FALSE(expected.empty());
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& item : expected) {
    // Products and sums in another order: some roundings of 2^-24. Key biases have gradients that
    // are zero but for rounding; the floor covers them.
    EXPECT_TRUE(TensorNear(actual.at(item.first), item.second,
                                   {.absolute = 1e-8, .relative_l2 = 1e-6}))
        << item.first;
  }
}

UpdateInput Input(std::vector<MicroBatch> micro_batches) {
  UpdateInput input;
  input.micro_batches = std::move(micro_batches);
  return input;
}

// 2 counting tokens in one micro-batch and 6 in the other: the mean is over all 8 (with losses 1
// and 4: 3.25), for accumulation 1 and 2.
TEST(FieldCases, A1_TokenWeightedMean) {
  const ModelConfig config = TinyConfig("gpt2", 31);
  const MicroBatch two = Rows(1, {2}, 31), six = Rows(40, {6}, 31);
  ASSERT_OK_AND_ASSIGN(Trainer one, MakeTrainer(config, 1, 1));
  ASSERT_OK_AND_ASSIGN(const UpdateResult a, one.program->RunUpdate(Input({two})));
  ASSERT_OK_AND_ASSIGN(const UpdateResult b, one.program->RunUpdate(Input({six})));
  EXPECT_EQ(a.tokens, 2);
  EXPECT_EQ(b.tokens, 6);
  std::map<std::string, std::vector<double>> expected = Means(a);
  for (auto& item : expected) {
    const std::vector<double> other = Means(b).at(item.first);
    for (size_t i = 0; i < other.size(); ++i) {
      item.second[i] = (2 * item.second[i] + 6 * other[i]) / 8;
    }
  }
  const double loss = (2 * a.loss + 6 * b.loss) / 8;

  ASSERT_OK_AND_ASSIGN(Trainer accumulated, MakeTrainer(config, 1, 2));
  ASSERT_OK_AND_ASSIGN(const UpdateResult c, accumulated.program->RunUpdate(Input({two, six})));
  EXPECT_EQ(c.tokens, 8);
  EXPECT_NEAR(c.loss, loss, 1e-6 * loss);
  ExpectNear(Means(c), expected);

  // Both rows at once. The ids of the second row are those of `six`: 11 apart.
  ASSERT_OK_AND_ASSIGN(Trainer wide, MakeTrainer(config, 2, 1));
  MicroBatch both = Rows(1, {2, 6}, 31);
  for (int64_t t = 0; t < kLength; ++t) {
    both.input_ids.Set(kLength + t, six.input_ids.Get(t));
    both.labels.Set(kLength + t, six.labels.Get(t));
  }
  ASSERT_OK_AND_ASSIGN(const UpdateResult d, wide.program->RunUpdate(Input({both})));
  EXPECT_NEAR(d.loss, loss, 1e-6 * loss);
  ExpectNear(Means(d), expected);
}

// A last window of 1 micro-batch where 4 are planned applies that micro-batch's mean gradient.
TEST(FieldCases, A1_ShortLastWindow) {
  const ModelConfig config = TinyConfig("gpt2", 31);
  const MicroBatch last = Rows(9, {kLength, kLength}, 31);
  ASSERT_OK_AND_ASSIGN(Trainer one, MakeTrainer(config, 2, 1));
  ASSERT_OK_AND_ASSIGN(Trainer four, MakeTrainer(config, 2, 4));
  UpdateInput input = Input({last});
  input.learning_rate = 0.01;
  ASSERT_OK_AND_ASSIGN(const UpdateResult expected, one.program->RunUpdate(input));
  ASSERT_OK_AND_ASSIGN(const UpdateResult actual, four.program->RunUpdate(input));
  EXPECT_EQ(actual.tokens, 2 * kLength);
  EXPECT_NEAR(actual.loss, expected.loss, 1e-6 * expected.loss);
  EXPECT_NEAR(actual.grad_norm, expected.grad_norm, 1e-6 * expected.grad_norm);
  ExpectNear(Means(actual), Means(expected));
}

// Rows or micro-batches without a counting token take no part in loss and gradient.
TEST(FieldCases, A2_PartWithoutTokens) {
  const ModelConfig config = TinyConfig("gpt2", 31);
  ASSERT_OK_AND_ASSIGN(Trainer one, MakeTrainer(config, 1, 1));
  ASSERT_OK_AND_ASSIGN(Trainer two, MakeTrainer(config, 1, 2));
  const MicroBatch valid = Rows(5, {2}, 31), ignored = Rows(77, {0}, 31);
  ASSERT_OK_AND_ASSIGN(const UpdateResult expected, one.program->RunUpdate(Input({valid})));
  for (const auto& order : {std::vector<MicroBatch>{valid, ignored}, {ignored, valid}}) {
    ASSERT_OK_AND_ASSIGN(const UpdateResult actual, two.program->RunUpdate(Input(order)));
    EXPECT_EQ(actual.tokens, 2);
    EXPECT_NEAR(actual.loss, expected.loss, 1e-6 * expected.loss);
    ExpectNear(Means(actual), Means(expected));
  }
}

// Without any counting token nothing is computed and no bit changes.
TEST(FieldCases, A2_StepWithoutTokens) {
  const ModelConfig config = TinyConfig("gpt2", 31);
  ASSERT_OK_AND_ASSIGN(Trainer trainer, MakeTrainer(config, 2, 2));
  UpdateInput input = Input({Rows(5, {3, 4}, 31)});
  input.learning_rate = 0.1;
  ASSERT_OK(trainer.program->RunUpdate(input).status());  // moments are no longer zero
  const auto before = trainer.States();
  input.micro_batches = {Rows(7, {0, 0}, 31), Rows(8, {0, 0}, 31)};
  ASSERT_OK_AND_ASSIGN(const UpdateResult result, trainer.program->RunUpdate(input));
  EXPECT_EQ(result.tokens, 0);
  EXPECT_TRUE(result.finite);
  EXPECT_THAT(result.skipped, ::testing::HasSubstr("no position"));
  for (const auto& item : trainer.States()) {
    EXPECT_TRUE(item.second == before.at(item.first)) << item.first;
  }
}

// Every parameter 1, every gradient 0 (a vocabulary of one word has nothing to learn), lr and decay
// 0.1: matrices become 0.99, norm weights and biases stay 1, whatever their names.
TEST(FieldCases, E4_WhatDecays) {
  for (const char* family : {"gpt2", "llama", "qwen2"}) {
    SCOPED_TRACE(family);
    const ModelConfig config = TinyConfig(family, 1);
    Optimizer optimizer;
    optimizer.weight_decay = 0.1;
    ASSERT_OK_AND_ASSIGN(Trainer trainer, MakeTrainer(config, 1, 1, optimizer));
    for (const StateInfo& info : trainer.program->parameters()) {
      HostTensor ones(Type{DType::kF32, info.global_dims});
      for (float& value : ones.data<float>()) value = 1;
      ASSERT_OK(trainer.program->SetParameter(info.name, ones));
    }
    UpdateInput input = Input({Rows(1, {4}, 1)});
    input.learning_rate = 0.1;
    ASSERT_OK_AND_ASSIGN(const UpdateResult result, trainer.program->RunUpdate(input));
    EXPECT_EQ(result.grad_norm, 0);
    int64_t decayed = 0;
    for (const StateInfo& info : trainer.program->parameters()) {
      const bool matrix = info.disk_dims.size() == 2;
      decayed += matrix;
      ASSERT_OK_AND_ASSIGN(const HostTensor values,
                           trainer.program->program().ReadState(info.name));
      const std::vector<double> expected(static_cast<size_t>(values.type().elements()),
                                         matrix ? 0.99 : 1.0);
      EXPECT_TRUE(TensorNear(values.ToDoubles(), expected, {.absolute = matrix ? 1e-7 : 0}))
          << info.name;
    }
    EXPECT_GT(decayed, 4);
  }
}

// The update of one parameter of 1 in bf16, gradient 1 and AdamW at 1e-3, as a program.
absl::StatusOr<std::unique_ptr<Program>> SmallUpdates(Device& device,
                                                      const Optimizer& optimizer,
                                                      const ProgramOptions& options) {
  GraphBuilder builder("update");
  StateInfo info;
  info.name = "w";
  info.global_dims = info.disk_dims = {1};
  info.axes = {""};
  UpdateScalars scalars;
  const Type scalar{DType::kF32, {}};
  scalars.learning_rate = builder.Feed("learning_rate", scalar);
  scalars.grad_scale = builder.Feed("grad_scale", scalar);
  scalars.correction1 = builder.Feed("correction1", scalar);
  scalars.correction2 = builder.Feed("correction2", scalar);
  AddUpdate(builder, optimizer,
            {{info, DType::kBF16, builder.Feed("gradient", {DType::kBF16, {1}})}}, scalars);
  ASSIGN_OR_RETURN(Graph graph, std::move(builder).Build());
  StepBuilder steps({"update"});
  StepSegment segment;
  segment.segment = {"update", std::make_shared<const Graph>(std::move(graph))};
  segment.may_run_on_host = true;
  steps.AddCall(steps.AddSegment(std::move(segment)), -1, 0);
  ASSIGN_OR_RETURN(Step step, std::move(steps).Build());
  ASSIGN_OR_RETURN(std::unique_ptr<Program> program,
                   Program::Compile(std::move(step), device, options));
  RETURN_IF_ERROR(program->Allocate());
  for (const StateHome& home : program->plan().states) {
    const bool moment = home.info.role == Role::kMoment1 || home.info.role == Role::kMoment2;
    EXPECT_EQ(home.type.dtype, home.info.role == Role::kParameter ? DType::kBF16 : DType::kF32);
    HostTensor value(home.type);
    value.Set(0, moment ? 0 : 1);
    RETURN_IF_ERROR(program->WriteState(home.info.name, value));
  }
  return program;
}

absl::Status UpdateOften(Program& program, const Optimizer& optimizer, int updates) {
  std::map<std::string, HostTensor> feeds;
  HostTensor gradient(Type{DType::kBF16, {1}});
  gradient.Set(0, 1);
  feeds["gradient"] = gradient;
  feeds["learning_rate"] = HostTensor::Of<float>({}, {1e-3f});
  feeds["grad_scale"] = HostTensor::Of<float>({}, {1});
  double power1 = 1, power2 = 1;
  for (int k = 0; k < updates; ++k) {
    power1 *= optimizer.beta1;
    power2 *= optimizer.beta2;
    feeds["correction1"] = HostTensor::Of<float>({}, {static_cast<float>(1 - power1)});
    feeds["correction2"] = HostTensor::Of<float>({}, {static_cast<float>(1 - power2)});
    const FeedFunction feed = [&](absl::string_view name, int) {
      return &feeds.at(std::string(name));
    };
    RETURN_IF_ERROR(program.RunPhase(0, feed).status());
  }
  return absl::OkStatus();
}

// One bf16 parameter of 1, constant gradient 1, AdamW at 1e-3 for 100 updates: the fp32 master
// arrives at 0.9, which the bf16 copy alone never would; on the device, and where states live on
// the host and are updated there.
TEST(FieldCases, A15_SmallUpdatesToBf16) {
  Optimizer optimizer;
  optimizer.weight_decay = 0;
  for (const bool placed : {false, true}) {
    SCOPED_TRACE(placed ? "on the host" : "on the device");
    CappedDeviceOptions capped;
    capped.memory_bytes = int64_t{1} << 20;
    capped.kernels = CpuKernels();
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Device> device, NewCappedDevice(capped));
    ProgramOptions options;
    if (placed) {
      options.placer =
          std::make_shared<GeminiPlacer>(GeminiOptions{.policy = PlacementPolicy::kCpu});
    }
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Program> program,
                         SmallUpdates(*device, optimizer, options));
    for (const StateHome& home : program->plan().states) {
      EXPECT_EQ(home.range.tier, placed ? Tier::kHost : Tier::kDevice) << home.info.name;
    }
    ASSERT_OK(UpdateOften(*program, optimizer, 100));
    ASSERT_OK_AND_ASSIGN(const HostTensor master, program->ReadState("master/w"));
    ASSERT_OK_AND_ASSIGN(const HostTensor view, program->ReadState("w"));
    EXPECT_NEAR(master.Get(0), 0.9, 1e-4);
    EXPECT_EQ(view.Get(0), 0.8984375);
  }
}

}  // namespace
}  // namespace colossus
