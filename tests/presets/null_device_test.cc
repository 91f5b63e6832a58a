// Large presets on the null device: the plan is the real one, and nothing of the model is held.
#include <chrono>
#include <cstdio>
#include <memory>

#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "parallel/plan.h"
#include "parallel/training_program.h"
#include "shardformer/config.h"
#include "shardformer/presets.h"
#include "tensor/exec/device.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "trainers/lib/report/progress.h"

namespace colossus {
namespace {

Plan Bf16Plan(int64_t rows, int64_t length) {
  Plan plan;
  plan.micro_batch = rows;
  plan.sequence_length = length;
  plan.precision = {DType::kBF16, DType::kBF16};
  plan.recomputation = Recomputation::kBlock;
  return plan;
}

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Runs alone in its process, so that the peak is this test's.
TEST(NullDeviceTest, Gpt18bRunsAnUpdateWithoutMemory) {
  const double start = Seconds();
  ASSERT_OK_AND_ASSIGN(ModelConfig config, PresetConfig("gpt-18b"));
  Plan plan = Bf16Plan(1, 1024);
  plan.micro_batches = 4;
  std::unique_ptr<Device> device = NewNullDevice({.threads = 2, .kernels = CpuKernels()});
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<TrainingProgram> training,
                       TrainingProgram::Make(config, plan, {}, *device));
  const double compiled = Seconds();
  ASSERT_OK(training->Allocate());
  UpdateInput input;
  for (int m = 0; m < plan.micro_batches; ++m) {
    const HostTensor tokens(Type{DType::kI32, {1, plan.sequence_length}});
    input.micro_batches.push_back({tokens, tokens, {}, {}, m});
  }
  ASSERT_OK_AND_ASSIGN(UpdateResult result, training->RunUpdate(input));
  EXPECT_EQ(result.tokens, plan.micro_batches * plan.sequence_length);
  std::printf("compiled in %.2f s, in all %.2f s, %.0f MB; predicted: %.0f s an update\n",
              compiled - start, Seconds() - start, HostPeakBytes() / 1e6,
              device->clock().Seconds());
  // 18.4 billion parameters, 16 bytes each, two of them for the gradient.
  EXPECT_GT(training->program().plan().device_bytes, int64_t{16} * 18'000'000'000);
  EXPECT_GT(device->clock().Seconds(), 60);
  EXPECT_GT(HostPeakBytes(), 0);
  EXPECT_LT(HostPeakBytes(), int64_t{1} << 30);
}

}  // namespace
}  // namespace colossus
