#include "tests/parity/small_trainer.h"

#include <random>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/testing/seed.h"
#include "nlohmann/json.hpp"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tensor/testing/run_op.h"

namespace colossus {
namespace {

constexpr char kGpt2[] = R"({"model_type": "gpt2", "n_layer": 2, "n_head": 4, "n_embd": 24,
    "vocab_size": 13, "n_positions": 16, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
    "tie_word_embeddings": false})";
constexpr char kLlama[] = R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 24,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 20, "vocab_size": 13,
    "max_position_embeddings": 16, "tie_word_embeddings": false})";

ModelConfig Read(absl::string_view base, absl::string_view model_type, absl::string_view changes) {
  nlohmann::json json = nlohmann::json::parse(std::string(base));
  json["model_type"] = std::string(model_type);
  if (model_type == "mistral") json["sliding_window"] = 3;
  json.merge_patch(nlohmann::json::parse(std::string(changes)));
  absl::StatusOr<ModelConfig> config = ReadModelConfig(json, "small model");
  CHECK_OK(config.status());
  return *std::move(config);
}

uint64_t Hash(const std::string& text) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a: the same in every process
  for (unsigned char c : text) hash = (hash ^ c) * 1099511628211u;
  return hash;
}

}  // namespace

ModelConfig SmallGpt2(absl::string_view changes) { return Read(kGpt2, "gpt2", changes); }
ModelConfig SmallLlama(absl::string_view changes) { return Read(kLlama, "llama", changes); }
ModelConfig SmallMistral(absl::string_view changes) { return Read(kLlama, "mistral", changes); }
ModelConfig SmallQwen2(absl::string_view changes) { return Read(kLlama, "qwen2", changes); }

HostTensor IntRows(const Table& rows) {
  const int64_t length = static_cast<int64_t>(rows[0].size());
  HostTensor tensor(Type{DType::kI32, {static_cast<int64_t>(rows.size()), length}});
  for (size_t r = 0; r < rows.size(); ++r) {
    CHECK_EQ(static_cast<int64_t>(rows[r].size()), length);
    for (int64_t t = 0; t < length; ++t) tensor.Set(r * length + t, rows[r][t]);
  }
  return tensor;
}

MicroBatch Rows(const Table& ids, const Table& labels) {
  return {IntRows(ids), IntRows(labels), {}, {}, 0};
}

HostTensor RandomParameter(const StateInfo& info) {
  std::mt19937_64 random(TestSeed() ^ Hash(info.name));
  HostTensor values = RandomTensor(DType::kF32, info.global_dims, random);
  const bool norm = info.init == Initializer::Constant(1);
  for (float& value : values.data<float>()) value = norm ? 1 + 0.3f * value : 0.3f * value;
  return values;
}

absl::StatusOr<std::unique_ptr<SmallTrainer>> SmallTrainer::Make(
    const ModelConfig& config, const Plan& plan, const Optimizer& optimizer,
    const ParameterFunction& values, KernelList kernels) {
  auto trainer = std::make_unique<SmallTrainer>();
  trainer->device_ = NewHostDevice({.kernels = kernels.empty() ? CpuKernels() : kernels});
  TrainingOptions options;
  options.optimizer = optimizer;
  options.fetch_gradients = true;
  options.compile.program.poison = true;
  ASSIGN_OR_RETURN(trainer->program_,
                   TrainingProgram::Make(config, plan, options, *trainer->device_));
  RETURN_IF_ERROR(trainer->program_->Allocate());
  for (const StateInfo& info : trainer->program_->parameters()) {
    RETURN_IF_ERROR(trainer->program_->SetParameter(info.name, values(info)));
  }
  return trainer;
}

absl::StatusOr<SmallUpdate> SmallTrainer::Update(std::vector<MicroBatch> micro_batches,
                                                 double learning_rate, double clip_norm) {
  UpdateInput input;
  input.micro_batches = std::move(micro_batches);
  input.learning_rate = learning_rate;
  input.clip_norm = clip_norm;
  input.applied = applied_;
  input.step = step_++;
  input.seed = 5;
  SmallUpdate update;
  ASSIGN_OR_RETURN(update.result, program_->RunUpdate(input));
  if (update.result.skipped.empty()) ++applied_;
  const std::string prefix = "gradient/";
  for (const auto& item : update.result.gradients) {
    const std::string& name = item.first.first;
    if (name.compare(0, prefix.size(), prefix) != 0) continue;
    std::vector<double>& mean = update.gradients[name.substr(prefix.size())];
    for (double v : item.second.ToDoubles()) mean.push_back(v * update.result.gradient_scale);
  }
  return update;
}

absl::StatusOr<HostTensors> SmallTrainer::States() {
  HostTensors states;
  for (const StateHome& home : program_->states()) {
    ASSIGN_OR_RETURN(states[home.info.name], program_->program().ReadState(home.info.name));
  }
  return states;
}

Plan SmallPlan(int64_t rows, int64_t micro_batches, int64_t length) {
  Plan plan;
  plan.micro_batch = rows;
  plan.micro_batches = micro_batches;
  plan.sequence_length = length;
  return plan;
}

}  // namespace colossus
