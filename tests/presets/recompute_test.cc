// Recomputation changes no bit of an update, for every preset with fewer and narrower layers and
// for every other family, with dropout, in fp32 and bf16.
#include <cctype>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/status.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "parallel/compile.h"
#include "parallel/plan.h"
#include "parallel/training_program.h"
#include "shardformer/config.h"
#include "shardformer/initialize.h"
#include "shardformer/presets.h"
#include "tensor/exec/device.h"
#include "tensor/kernels/cpu/cpu_list.h"

namespace colossus {
namespace {

constexpr int64_t kLength = 12, kRows = 2, kMicroBatches = 2;

struct Case {
  std::string name;
  ModelConfig config;
};

// The preset's heads, tying and family; two layers, four entries a head.
ModelConfig Narrowed(ModelConfig config) {
  config.mlp = config.mlp * config.heads * 4 / config.hidden;
  config.layers = 2;
  config.head_dim = 4;
  config.hidden = config.heads * 4;
  config.vocabulary = 61;
  config.windows.resize(2);
  return config;
}

ModelConfig FromJson(const char* text) {
  absl::StatusOr<ModelConfig> config = ReadModelConfig(nlohmann::json::parse(text), "config");
  CHECK_OK(config.status());
  return *std::move(config);
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const std::string& name : PresetNames()) {
    absl::StatusOr<ModelConfig> config = PresetConfig(name);
    CHECK_OK(config.status());
    cases.push_back({name, Narrowed(*std::move(config))});
  }
  cases.push_back({"mistral", FromJson(R"({"model_type": "mistral", "num_hidden_layers": 2,
      "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12,
      "intermediate_size": 48, "vocab_size": 61, "sliding_window": 5})")});
  cases.push_back({"qwen2", FromJson(R"({"model_type": "qwen2", "num_hidden_layers": 2,
      "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2,
      "intermediate_size": 48, "vocab_size": 61, "tie_word_embeddings": true})")});
  for (Case& c : cases) {
    c.config.attention_dropout = 0.5;
    if (c.config.family != "gpt2") continue;
    c.config.embedding_dropout = 0.25;
    c.config.residual_dropout = 0.125;
  }
  return cases;
}

MicroBatch RandomBatch(int64_t vocabulary, int64_t first_row, std::mt19937_64& random) {
  MicroBatch batch;
  batch.input_ids = batch.labels = HostTensor(Type{DType::kI32, {kRows, kLength}});
  for (int64_t i = 0; i < kRows * kLength; ++i) {
    batch.input_ids.Set(i, static_cast<double>(random() % vocabulary));
    batch.labels.Set(i, static_cast<double>(random() % vocabulary));
  }
  batch.first_row = first_row;
  return batch;
}

// What two updates give: losses, norms, gradients, states.
struct Outcome {
  std::vector<double> numbers;
  Fetched gradients;
  HostTensors states;

  friend bool operator==(const Outcome& a, const Outcome& b) {
    return a.numbers == b.numbers && a.gradients == b.gradients && a.states == b.states;
  }
};

absl::StatusOr<Outcome> Train(const ModelConfig& config, const Plan& plan) {
  std::unique_ptr<Device> device = NewHostDevice({.kernels = CpuKernels()});
  TrainingOptions options;
  options.fetch_gradients = true;
  ASSIGN_OR_RETURN(std::unique_ptr<TrainingProgram> training,
                   TrainingProgram::Make(config, plan, options, *device));
  RETURN_IF_ERROR(training->Allocate());
  for (const StateInfo& info : training->parameters()) {
    RETURN_IF_ERROR(
        training->SetParameter(info.name, InitialValue(info, DType::kF32, TestSeed())));
  }
  std::mt19937_64 random(TestSeed());
  Outcome outcome;
  for (int step = 0; step < 2; ++step) {
    UpdateInput input;
    for (int64_t m = 0; m < plan.micro_batches; ++m) {
      input.micro_batches.push_back(RandomBatch(config.vocabulary, m * kRows, random));
    }
    input.learning_rate = 0.01;
    input.clip_norm = 0.5;
    input.applied = input.step = step;
    input.seed = TestSeed();
    ASSIGN_OR_RETURN(UpdateResult result, training->RunUpdate(input));
    CHECK(result.skipped.empty()) << result.skipped;
    outcome.numbers.insert(outcome.numbers.end(), {result.loss, result.grad_norm});
    outcome.gradients = std::move(result.gradients);
  }
  for (const StateHome& home : training->states()) {
    ASSIGN_OR_RETURN(outcome.states[home.info.name],
                     training->program().ReadState(home.info.name));
  }
  return outcome;
}

class RecomputeTest : public ::testing::TestWithParam<Case> {};

TEST_P(RecomputeTest, ChangesNoBit) {
  for (DType compute : {DType::kF32, DType::kBF16}) {
    SCOPED_TRACE(Name(compute));
    Plan plan;
    plan.micro_batch = kRows;
    plan.micro_batches = kMicroBatches;
    plan.sequence_length = kLength;
    plan.precision = {compute, compute};
    plan.dropout = true;
    ASSERT_OK_AND_ASSIGN(Outcome kept, Train(GetParam().config, plan));
    for (Recomputation recomputation :
        {Recomputation::kCheap, Recomputation::kSelective, Recomputation::kBlock}) {
      SCOPED_TRACE(Name(recomputation));
      plan.recomputation = recomputation;
      ASSERT_OK_AND_ASSIGN(Outcome recomputed, Train(GetParam().config, plan));
      EXPECT_EQ(recomputed.numbers, kept.numbers);
      EXPECT_TRUE(recomputed.gradients == kept.gradients);
      EXPECT_TRUE(recomputed == kept);
    }
  }
}

// Protects: layers that keep all, that keep what is dear, and that run up to five times change no
// bit; the least budget takes less memory.
TEST(RecomputeTest, OptimalChangesNoBit) {
  for (Case& c : Cases()) {
    if (c.name != "gpt2-tiny" && c.name != "qwen2") continue;
    SCOPED_TRACE(c.name);
    c.config.layers = 6;
    c.config.windows.resize(6);
    Plan plan;
    plan.micro_batch = kRows;
    plan.micro_batches = kMicroBatches;
    plan.sequence_length = kLength;
    plan.precision = {DType::kBF16, DType::kBF16};
    plan.dropout = true;
    ASSERT_OK_AND_ASSIGN(const Outcome kept, Train(c.config, plan));
    ASSERT_OK_AND_ASSIGN(const LayerBytes bytes, BytesOfLayers(c.config, plan, {}));
    EXPECT_LT(bytes.least, bytes.all / 2);
    plan.recomputation = Recomputation::kOptimal;
    std::unique_ptr<Device> null = NewNullDevice({.kernels = CpuKernels()});
    int64_t memory = 0;
    for (int64_t quarters = 4; quarters >= 0; --quarters) {
      plan.recompute_budget_bytes = bytes.least + (bytes.all - bytes.least) / 4 * quarters;
      SCOPED_TRACE(plan.recompute_budget_bytes);
      ASSERT_OK_AND_ASSIGN(const Outcome recomputed, Train(c.config, plan));
      EXPECT_TRUE(recomputed == kept);
      ASSERT_OK_AND_ASSIGN(const CompiledTraining compiled,
                           CompileTraining(c.config, plan, {}, *null));
      memory = compiled.program->plan().device_bytes;
    }
    plan.recomputation = Recomputation::kNone;
    plan.recompute_budget_bytes = 0;
    ASSERT_OK_AND_ASSIGN(const CompiledTraining all, CompileTraining(c.config, plan, {}, *null));
    EXPECT_LT(memory, all.program->plan().device_bytes);
    plan.recomputation = Recomputation::kOptimal;
    plan.recompute_budget_bytes = bytes.least / 4;
    EXPECT_EQ(Train(c.config, plan).status().code(), absl::StatusCode::kResourceExhausted);
  }
}

std::string CaseName(const ::testing::TestParamInfo<Case>& info) {
  std::string name;
  for (char c : info.param.name) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, RecomputeTest, ::testing::ValuesIn(Cases()), CaseName);

}  // namespace
}  // namespace colossus
