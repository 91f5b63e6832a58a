// Whole updates with the CUDA kernels, run on the host unit by unit: every op of every family has
// one, and losses, gradients and new parameters are those of the CPU kernels.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/status_matchers.h"
#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"
#include "parallel/plan.h"
#include "parallel/training_program.h"
#include "shardformer/presets.h"
#include "tensor/exec/device.h"
#include "tensor/kernels/cuda/cuda_list.h"
#include "tests/parity/small_trainer.h"

namespace colossus {
namespace {

// Gradients in f32 by different orders of addition: a few hundred terms of magnitude up to the
// largest entry, each rounded to 2^-24, through some twenty ops; 1e-5 of the largest is ten times
// that.
constexpr Limit kLimit{.absolute = 1e-6, .relative_to_max = 1e-5};

struct Family {
  std::string name;
  ModelConfig config;
};

std::vector<Family> Families() {
  return {{"gpt2", SmallGpt2()},
          {"gpt2_dropout",
           SmallGpt2(R"({"attn_pdrop": 0.2, "embd_pdrop": 0.1, "resid_pdrop": 0.1})")},
          {"gpt2_tied", SmallGpt2(R"({"tie_word_embeddings": true})")},
          {"llama", SmallLlama()},
          {"mistral", SmallMistral()},
          {"qwen2", SmallQwen2()}};
}

TEST(CudaKernelsTest, UpdatesAreThoseOfTheCpuKernels) {
  const Table ids = {{1, 5, 2, 7, 3, 12, 5, 0}, {4, 4, 9, 1, 11, 6, 2, 8}};
  const Table labels = {{5, 2, 7, 3, 12, 5, 0, -100}, {4, 9, 1, 11, 6, 2, 8, 3}};
  Optimizer adamw;
  for (const Family& family : Families()) {
    SCOPED_TRACE(family.name);
    const Plan plan = SmallPlan(2, 2, 8);
    ASSERT_OK_AND_ASSIGN(auto expected, SmallTrainer::Make(family.config, plan, adamw));
    ASSERT_OK_AND_ASSIGN(auto actual, SmallTrainer::Make(family.config, plan, adamw,
                                                         RandomParameter, CudaKernels()));
    for (int step = 0; step < 2; ++step) {
      const std::vector<MicroBatch> batches = {Rows(ids, labels), Rows(ids, labels)};
      ASSERT_OK_AND_ASSIGN(SmallUpdate e, expected->Update(batches, 1e-3, 1.0));
      ASSERT_OK_AND_ASSIGN(SmallUpdate a, actual->Update(batches, 1e-3, 1.0));
      EXPECT_NEAR(a.result.loss, e.result.loss, 1e-5 * e.result.loss);
      EXPECT_NEAR(a.result.grad_norm, e.result.grad_norm, 1e-5 * e.result.grad_norm);
      ASSERT_FALSE(e.gradients.empty());
      for (const auto& [name, gradient] : e.gradients) {
        const NearReport report = CompareTensors(a.gradients[name], gradient, kLimit);
        EXPECT_TRUE(report.ok) << "step " << step << " gradient of " << name << ": " << report.text;
      }
    }
  }
}

// Every preset is planned for a GPU, in every precision, without its memory.
TEST(CudaKernelsTest, PresetsArePlanned) {
  for (const char* preset : {"gpt2-tiny", "gpt2-124m", "llama-tiny", "llama-100m"}) {
    for (DType compute : {DType::kF32, DType::kBF16, DType::kF16}) {
      SCOPED_TRACE(absl::StrCat(preset, " ", std::string(Name(compute))));
      ASSERT_OK_AND_ASSIGN(ModelConfig config, PresetConfig(preset));
      Plan plan = SmallPlan(2, 2, 64);
      plan.precision = {compute, compute};
      const std::unique_ptr<Device> device = NewNullDevice({.kernels = CudaKernels()});
      EXPECT_OK(TrainingProgram::Make(config, plan, {}, *device).status());
    }
  }
}

}  // namespace
}  // namespace colossus
