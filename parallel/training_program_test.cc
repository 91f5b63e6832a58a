#include "parallel/training_program.h"

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/parallel_for.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "shardformer/initialize.h"
#include "tensor/kernels/cpu/cpu_list.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kVocabulary = 40, kLength = 12;

ModelConfig Config(absl::string_view family, bool tied = true) {
  nlohmann::json json;
  if (family == "gpt2") {
    json = {{"n_layer", 2},      {"n_head", 2},       {"n_embd", 16},      {"n_positions", 16},
            {"attn_pdrop", 0.2}, {"embd_pdrop", 0.2}, {"resid_pdrop", 0.2}};
  } else {
    json = {{"num_hidden_layers", 2},   {"num_attention_heads", 4}, {"num_key_value_heads", 2},
            {"hidden_size", 16},        {"intermediate_size", 24},
            {"max_position_embeddings", 16}};
  }
  json["model_type"] = std::string(family);
  json["vocab_size"] = kVocabulary;
  json["tie_word_embeddings"] = tied;
  json["initializer_range"] = 0.2;  // larger than usual, so that attention is not uniform
  absl::StatusOr<ModelConfig> config = ReadModelConfig(json, "test");
  EXPECT_OK(config);
  return *std::move(config);
}

Plan PlanOf(int64_t micro_batch, int64_t micro_batches, DType dtype = DType::kF32) {
  Plan plan;
  plan.micro_batch = micro_batch;
  plan.micro_batches = micro_batches;
  plan.sequence_length = kLength;
  plan.precision = {dtype, dtype};
  return plan;
}

TrainingOptions Options(Optimizer::Kind kind = Optimizer::Kind::kAdamw) {
  TrainingOptions options;
  options.optimizer.kind = kind;
  options.fetch_gradients = true;
  options.compile.program.poison = true;  // who reads what is dead computes NaN
  return options;
}

std::unique_ptr<Device> Host() { return NewHostDevice({.threads = 2, .kernels = CpuKernels()}); }

uint64_t Seed() {
  static const uint64_t seed = TestSeed();
  return seed;
}

// Micro-batches of rows [first, first + rows). A row's content depends on its index alone; about
// one label in eight does not count.
std::vector<MicroBatch> Rows(int64_t first, int64_t rows, int64_t micro_batch) {
  std::vector<MicroBatch> batches;
  for (int64_t begin = first; begin < first + rows; begin += micro_batch) {
    const Type type{DType::kI32, {micro_batch, kLength}};
    MicroBatch batch{HostTensor(type), HostTensor(type), HostTensor(type), HostTensor(type), begin};
    for (int64_t r = 0; r < micro_batch; ++r) {
      std::mt19937_64 random(Seed() + static_cast<uint64_t>(begin + r));
      for (int64_t t = 0; t < kLength; ++t) {
        const int64_t i = r * kLength + t;
        batch.input_ids.Set(i, static_cast<double>(random() % kVocabulary));
        batch.labels.Set(i, random() % 8 == 0 ? -100.0 : double(random() % kVocabulary));
        batch.positions.Set(i, t < 5 ? t : t - 5);  // two documents a row
        batch.segments.Set(i, t < 5 ? 0 : 1);
      }
    }
    batches.push_back(std::move(batch));
  }
  return batches;
}

UpdateInput Input(std::vector<MicroBatch> batches, int64_t applied = 0) {
  UpdateInput input;
  input.micro_batches = std::move(batches);
  input.learning_rate = 0.01;
  input.applied = input.step = applied;
  input.seed = 11;
  return input;
}

// A training program with values, on a device of its own.
class Job {
 public:
  explicit Job(const ModelConfig& config, const Plan& plan,
               const TrainingOptions& options = Options(),
               std::unique_ptr<Device> device = Host())
      : device_(std::move(device)) {
    SetThreads(2);
    absl::StatusOr<std::unique_ptr<TrainingProgram>> made =
        TrainingProgram::Make(config, plan, options, *device_);
    EXPECT_OK(made);
    training_ = *std::move(made);
    EXPECT_OK(training_->Allocate());
    for (const StateInfo& info : training_->parameters()) {
      StateInfo source = info;
      // An untied head starts as the table: then it computes what the tied model does.
      if (info.name == "lm_head.weight") source = training_->parameters()[0];
      EXPECT_OK(training_->SetParameter(info.name, InitialValue(source, DType::kF32, 3)));
    }
  }

  TrainingProgram& operator*() { return *training_; }
  TrainingProgram* operator->() { return training_.get(); }

  UpdateResult Update(const UpdateInput& input) {
    absl::StatusOr<UpdateResult> result = training_->RunUpdate(input);
    EXPECT_OK(result);
    return *std::move(result);
  }

  HostTensors States() {
    HostTensors states;
    for (const StateHome& home : training_->states()) {
      absl::StatusOr<HostTensor> value = training_->program().ReadState(home.info.name);
      EXPECT_OK(value);
      states[home.info.name] = *std::move(value);
    }
    return states;
  }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<TrainingProgram> training_;
};

void ExpectSameBits(const HostTensors& a, const HostTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, value] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    EXPECT_TRUE(value == b.at(name)) << name;
  }
}

// Equal but for the sign of zeros, which a sum with nothing may change.
void ExpectSameValues(const HostTensors& a, const HostTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, value] : a) {
    EXPECT_TRUE(TensorNear(value.ToDoubles(), b.at(name).ToDoubles(), {})) << name;
  }
}

// Mean gradients by parameter.
std::map<std::string, std::vector<double>> MeanGradients(const UpdateResult& result) {
  std::map<std::string, std::vector<double>> means;
  for (const auto& [key, value] : result.gradients) {
    means[key.first] = value.ToDoubles();
    for (double& x : means[key.first]) x *= result.gradient_scale;
  }
  return means;
}

double SumSquares(const std::map<std::string, std::vector<double>>& gradients) {
  double sum = 0;
  for (const auto& [name, values] : gradients) {
    for (double x : values) sum += x * x;
  }
  return sum;
}

// Protects: one sum, one divisor: micro-batches are the big batch, under dropout and packing too.
// Limits: sums over rows in f32 in another order, a few roundings of 2^-24 of what is added; what
// cancels is bounded by the largest gradient's scale.
TEST(TrainingProgramTest, MicroBatchesEqualOneBatch) {
  for (const char* family : {"gpt2", "llama"}) {
    for (bool packed : {false, true}) {
      UpdateResult whole;
      for (int64_t micro_batches : {1, 2, 3}) {
        Plan plan = PlanOf(6 / micro_batches, micro_batches);
        plan.packed = packed;
        plan.dropout = !packed;
        Job run(Config(family), plan);
        const UpdateInput input = Input(Rows(0, 6, plan.micro_batch));
        UpdateResult result = run.Update(input);
        const HostTensors states = run.States();
        Job again(Config(family), plan);
        again.Update(input);
        ExpectSameBits(again.States(), states);
        if (micro_batches == 1) {
          whole = std::move(result);
          continue;
        }
        EXPECT_EQ(result.tokens, whole.tokens);
        EXPECT_LE(std::abs(result.loss - whole.loss), 1e-6 * whole.loss);
        EXPECT_LE(std::abs(result.grad_norm - whole.grad_norm), 1e-6 * whole.grad_norm);
        const auto a = MeanGradients(result), e = MeanGradients(whole);
        for (const auto& [name, values] : e) {
          EXPECT_TRUE(TensorNear(a.at(name), values, {.absolute = 1e-7 * whole.grad_norm,
                                                      .relative_l2 = 1e-6}))
              << family << " " << name;
        }
      }
    }
  }
}

// Protects: gradients and norm are those of the mean loss: in f64 the loss falls along the gradient
// as its norm says. Central difference with step h: h^2 of truncation, 1e-16 / h of rounding.
TEST(TrainingProgramTest, NormIsTheSlopeOfTheLoss) {
  for (const char* family : {"gpt2", "llama"}) {
    Job run(Config(family), PlanOf(2, 2, DType::kF64));
    const UpdateInput input = Input(Rows(0, 4, 2));
    // An update is applied too: parameters are set anew for every loss.
    const UpdateResult first = run.Update(input);
    const auto gradients = MeanGradients(first);
    const double slope = SumSquares(gradients);
    auto loss_at = [&](double step) {
      for (const StateInfo& info : run->parameters()) {
        HostTensor values = InitialValue(info, DType::kF32, 3).Converted(DType::kF64);
        const std::vector<double>& gradient = gradients.at("gradient/" + info.name);
        for (size_t i = 0; i < gradient.size(); ++i) {
          values.Set(i, values.Get(i) + step * gradient[i]);
        }
        EXPECT_OK(run->SetParameter(info.name, values));
      }
      return run.Update(input).loss;
    };
    const double h = 1e-5;
    const double measured = (loss_at(h) - loss_at(-h)) / (2 * h);
    EXPECT_LE(std::abs(measured - slope), 1e-6 * slope) << family;
    EXPECT_LE(std::abs(std::sqrt(slope) - first.grad_norm), 1e-12 * first.grad_norm) << family;
  }
}

// Protects: seed and divisor: the planned size of the update shows in no result.
TEST(TrainingProgramTest, ShortLastUpdate) {
  const ModelConfig config = Config("gpt2");
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    Job two(config, PlanOf(2, 2, dtype)), five(config, PlanOf(2, 5, dtype));
    const UpdateInput input = Input(Rows(0, 4, 2));
    const UpdateResult a = two.Update(input), b = five.Update(input);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.loss, b.loss) << Name(dtype);
    if (dtype == DType::kF16) continue;  // has too few exponents for another seed's same bits
    EXPECT_EQ(a.grad_norm, b.grad_norm) << Name(dtype);
    ExpectSameValues(two.States(), five.States());
  }
}

// Protects: a finished gradient is rounded once, with and without an fp32 copy: one micro-batch
// alone gives what it gives as the first of two.
TEST(TrainingProgramTest, GradientsAreRoundedOnce) {
  for (bool tied : {true, false}) {
    for (const char* family : {"gpt2", "llama"}) {
      const ModelConfig config = Config(family, tied);
      Job one(config, PlanOf(3, 1, DType::kBF16)), two(config, PlanOf(3, 2, DType::kBF16));
      const UpdateInput input = Input(Rows(0, 3, 3));
      const UpdateResult a = one.Update(input), b = two.Update(input);
      const auto ga = MeanGradients(a), gb = MeanGradients(b);
      for (const auto& [name, values] : ga) EXPECT_EQ(values, gb.at(name)) << name;
      for (const auto& [key, value] : a.gradients) {
        EXPECT_EQ(value.type().dtype, DType::kBF16) << key.first;
      }
      ExpectSameValues(one.States(), two.States());
    }
  }
}

// Protects: the gradient of a tied parameter is the sum of its uses', in the order of the reads.
TEST(TrainingProgramTest, TiedIsTheSumOfItsUses) {
  for (const auto& [family, table] : {std::pair("gpt2", "gradient/transformer.wte.weight"),
                                      std::pair("llama", "gradient/model.embed_tokens.weight")}) {
    Job tied(Config(family, true), PlanOf(2, 2)), untied(Config(family, false), PlanOf(2, 2));
    const UpdateInput input = Input(Rows(0, 4, 2));
    const UpdateResult a = tied.Update(input), b = untied.Update(input);
    const HostTensor& embedding = b.gradients.at({table, -1});
    const HostTensor& head = b.gradients.at({"gradient/lm_head.weight", -1});
    HostTensor sum(embedding.type());
    for (int64_t i = 0; i < sum.type().elements(); ++i) sum.Set(i, embedding.Get(i) + head.Get(i));
    EXPECT_TRUE(sum == a.gradients.at({table, -1})) << family;
  }
}

// Protects: an update that cannot count or cannot be trusted changes no bit of any state, and the
// next one is as if it had not been.
TEST(TrainingProgramTest, SkippedUpdatesChangeNothing) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    Job run(Config("gpt2"), PlanOf(2, 2, dtype)), straight(Config("gpt2"), PlanOf(2, 2, dtype));
    run.Update(Input(Rows(0, 4, 2)));
    straight.Update(Input(Rows(0, 4, 2)));
    const HostTensors before = run.States();

    UpdateInput nothing = Input(Rows(4, 4, 2), 1);
    for (MicroBatch& batch : nothing.micro_batches) {
      for (int32_t& label : batch.labels.data<int32_t>()) label = -100;
    }
    for (const UpdateInput& input : {nothing, Input({}, 1)}) {
      UpdateResult result = run.Update(input);
      EXPECT_EQ(result.tokens, 0);
      EXPECT_TRUE(result.finite);
      EXPECT_EQ(result.skipped, "no position of the update counts");
      ExpectSameBits(run.States(), before);
    }

    // One infinite value of the head's norm makes the loss NaN.
    const std::string broken = "transformer.ln_f.weight";
    HostTensor value = before.at(broken);
    value.Set(3, std::numeric_limits<double>::infinity());
    ASSERT_OK(run->program().WriteState(broken, value));
    HostTensors with_infinity = run.States();
    UpdateResult result = run.Update(Input(Rows(4, 4, 2), 1));
    EXPECT_FALSE(result.finite);
    EXPECT_GT(result.tokens, 0);
    EXPECT_THAT(result.skipped, HasSubstr("not finite"));
    ExpectSameBits(run.States(), with_infinity);

    ASSERT_OK(run->program().WriteState(broken, before.at(broken)));
    EXPECT_EQ(run.Update(Input(Rows(4, 4, 2), 1)).loss,
              straight.Update(Input(Rows(4, 4, 2), 1)).loss);
    ExpectSameBits(run.States(), straight.States());
  }
}

// Protects: clipping scales the whole gradient by max / norm and never up. Plain descent without
// momentum and decay moves by exactly the learning rate times that.
TEST(TrainingProgramTest, Clipping) {
  TrainingOptions options = Options(Optimizer::Kind::kSgd);
  options.optimizer.momentum = options.optimizer.weight_decay = 0;
  const ModelConfig config = Config("llama");
  Job plain(config, PlanOf(2, 1), options);
  const HostTensors start = plain.States();
  const UpdateResult first = plain.Update(Input(Rows(0, 2, 2)));
  const HostTensors moved = plain.States();
  const struct {
    double share;   // maximum as a share of the norm; 0: no clipping
    double factor;  // of the movement
  } rows[] = {{0, 1}, {0.5, 0.5}, {1.5, 1}, {0.125, 0.125}};
  for (const auto& row : rows) {
    Job run(config, PlanOf(2, 1), options);
    UpdateInput input = Input(Rows(0, 2, 2));
    input.clip_norm = row.share * first.grad_norm;
    const UpdateResult result = run.Update(input);
    EXPECT_EQ(result.grad_norm, first.grad_norm);  // before clipping
    const HostTensors end = run.States();
    if (row.factor == 1) {
      ExpectSameBits(end, moved);
      continue;
    }
    for (const StateInfo& info : run->parameters()) {
      std::vector<double> actual = end.at(info.name).ToDoubles();
      std::vector<double> expected = moved.at(info.name).ToDoubles();
      const std::vector<double> from = start.at(info.name).ToDoubles();
      for (size_t i = 0; i < actual.size(); ++i) {
        actual[i] -= from[i];
        expected[i] = (expected[i] - from[i]) * row.factor;
      }
      // Each end is a parameter below 2 rounded to f32: 2^-24 twice; the guard against a zero norm
      // is 1e-6 of it.
      const Limit limit = {.absolute = 2.5 * 0x1p-24, .relative_to_max = 1e-5};
      EXPECT_TRUE(TensorNear(actual, expected, limit)) << info.name;
    }
  }
}

// Protects: what must not change a bit does not: recomputation, fusion, a capped device with late
// streams and protected memory, threads.
TEST(TrainingProgramTest, SameBits) {
  for (const char* family : {"gpt2", "llama"}) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      Plan plan = PlanOf(2, 2, dtype);
      plan.dropout = true;
      Plan recompute = plan;
      recompute.recomputation = Recomputation::kBlock;
      auto capped = NewCappedDevice({.memory_bytes = 64 << 20,
                                     .threads = 2,
                                     .kernels = CpuKernels(),
                                     .late_seed = Seed(),
                                     .protect = true});
      ASSERT_OK(capped);
      Job straight(Config(family), plan), recomputed(Config(family), recompute);
      Job on_capped(Config(family), plan, Options(), *std::move(capped));
      TrainingOptions apart = Options();
      apart.compile.fusion = false;
      Job unfused(Config(family), plan, apart);
      Job unfused_recomputed(Config(family), recompute, apart);
      for (int64_t step = 0; step < 2; ++step) {
        const UpdateInput input = Input(Rows(4 * step, 4, 2), step);
        const UpdateResult expected = straight.Update(input);
        for (Job* run : {&recomputed, &on_capped, &unfused, &unfused_recomputed}) {
          const UpdateResult result = run->Update(input);
          EXPECT_EQ(result.loss, expected.loss);
          EXPECT_EQ(result.grad_norm, expected.grad_norm);
          EXPECT_EQ(result.gradients, expected.gradients);
        }
      }
      ExpectSameBits(unfused.States(), straight.States());
      ExpectSameBits(unfused_recomputed.States(), straight.States());
      ExpectSameBits(recomputed.States(), straight.States());
      ExpectSameBits(on_capped.States(), straight.States());
    }
  }
}

// Protects: dropout is a function of (seed, step, row): it repeats, and each of them matters.
TEST(TrainingProgramTest, DropoutKeys) {
  Plan plan = PlanOf(2, 1);
  plan.dropout = true;
  Job run(Config("gpt2"), plan);
  auto loss = [&](std::function<void(UpdateInput&)> change) {
    UpdateInput input = Input(Rows(0, 2, 2));
    input.learning_rate = 0;
    change(input);
    return run.Update(input).loss;
  };
  const double base = loss([](UpdateInput&) {});
  EXPECT_EQ(loss([](UpdateInput& i) { i.applied = 5; }), base);
  EXPECT_NE(loss([](UpdateInput& i) { i.seed = 12; }), base);
  EXPECT_NE(loss([](UpdateInput& i) { i.step = 1; }), base);
  EXPECT_NE(loss([](UpdateInput& i) { i.micro_batches[0].first_row = 2; }), base);
}

// Protects: 16 bytes a parameter in bf16 with one micro-batch: 2 + 4 + 4 + 4 of states and a
// gradient of 2; with more, states are the same. Those of norms are their own masters: 2 less.
TEST(TrainingProgramTest, BytesOfStates) {
  const struct {
    DType dtype;
    Optimizer::Kind kind;
    int64_t bytes;  // a parameter
  } rows[] = {{DType::kBF16, Optimizer::Kind::kAdamw, 14}, {DType::kF16, Optimizer::Kind::kSgd, 10},
              {DType::kF32, Optimizer::Kind::kAdamw, 12},  {DType::kF32, Optimizer::Kind::kSgd, 8},
              {DType::kF64, Optimizer::Kind::kAdamw, 24}};
  const ModelConfig config = Config("gpt2");
  const int64_t count = ParameterCount(config);
  const int64_t of_norms = (2 * config.layers + 1) * 2 * config.hidden;
  for (const auto& row : rows) {
    const int64_t copies = SizeOf(row.dtype) == 2 ? 2 * of_norms : 0;
    for (int64_t micro_batches : {1, 3}) {
      Job run(config, PlanOf(2, micro_batches, row.dtype), Options(row.kind));
      int64_t bytes = 0;
      for (const StateHome& home : run->states()) bytes += home.range.bytes;
      EXPECT_EQ(bytes, row.bytes * count - copies) << Name(row.dtype);
    }
  }
  // Values that cross to the update phase: the finished gradients, no fp32 copy beside them.
  Job run(config, PlanOf(2, 1, DType::kBF16));
  const MemoryPlan& plan = run->program().plan();
  int64_t gradients = 0;
  for (const Instruction& instruction : plan.instructions) {
    if (instruction.kind != InstructionKind::kFetch) continue;
    if (instruction.name.rfind("gradient/", 0) == 0) gradients += instruction.type.bytes();
  }
  EXPECT_EQ(gradients, 2 * count);
}

// Protects: on the null device nothing is computed and no tensor of the host is made, but names and
// sizes are checked; updates advance virtual time.
TEST(TrainingProgramTest, NullDevice) {
  auto device = NewNullDevice({.threads = 2, .kernels = CpuKernels()});
  Clock& clock = device->clock();
  Job run(Config("gpt2"), PlanOf(2, 2, DType::kBF16), Options(), std::move(device));
  EXPECT_THAT(run->SetParameter("transformer.wpe.weight", HostTensor(Type{DType::kF32, {3}})),
              StatusIs(absl::StatusCode::kInvalidArgument));
  const double before = clock.Seconds();
  const UpdateResult result = run.Update(Input(Rows(0, 4, 2)));
  EXPECT_TRUE(result.finite);
  EXPECT_EQ(result.loss, 0);
  EXPECT_GT(clock.Seconds(), before);
}

// Protects: parameters are found by name; dims of graph or file do not matter, elements do.
TEST(TrainingProgramTest, SetParameter) {
  Job run(Config("gpt2"), PlanOf(1, 1, DType::kBF16));
  const std::string name = "transformer.h.0.attn.c_attn.weight";
  EXPECT_THAT(run->SetParameter("nobody", HostTensor(Type{DType::kF32, {3}})),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no parameter 'nobody'")));
  EXPECT_THAT(run->SetParameter("master/" + name, HostTensor(Type{DType::kF32, {16, 48}})),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(run->SetParameter(name, HostTensor(Type{DType::kF32, {16, 47}})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("given f32[16,47]")));
  run.Update(Input(Rows(0, 1, 1)));
  HostTensor values(Type{DType::kF64, {16, 48}});
  values.Set(5, 1 + 0x1p-20);
  ASSERT_OK(run->SetParameter(name, values));
  const HostTensors states = run.States();
  EXPECT_EQ(states.at(name).Get(5), 1);  // bf16
  EXPECT_EQ(states.at("master/" + name).Get(5), 1 + 0x1p-20);
  for (const char* moment : {"moment1/", "moment2/"}) {
    EXPECT_EQ(states.at(moment + name).ToDoubles(), std::vector<double>(768, 0)) << moment;
  }
}

TEST(TrainingProgramTest, ValidationRefusesIdsOutsideTheVocabulary) {
  TrainingOptions options = Options();
  options.validation = true;
  Job job(Config("gpt2"), PlanOf(2, 1), options);
  MicroBatch rows = Rows(0, 2, 2)[0];
  EXPECT_OK(job->ValidationLoss(rows));
  rows.labels.Set(kLength + 5, kVocabulary);
  EXPECT_THAT(job->ValidationLoss(rows),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("target 40 at position 5 of row 1 is outside the vocabulary")));
}

}  // namespace
}  // namespace colossus
