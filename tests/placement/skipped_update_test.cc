// Updates that are skipped under a memory manager: states that were read ahead for them change no
// bit, nor does what comes after.
#include <cstdint>
#include <memory>
#include <random>
#include <utility>

#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gemini/placement.h"
#include "gtest/gtest.h"
#include "parallel/plan.h"
#include "parallel/training_program.h"
#include "shardformer/config.h"
#include "shardformer/initialize.h"
#include "tensor/exec/device.h"
#include "tensor/exec/testing/memory_disk.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tests/parity/small_trainer.h"

namespace colossus {
namespace {

constexpr int64_t kVocabulary = 24, kLength = 8;

UpdateInput InputOf(int64_t step, double loss_scale) {
  std::mt19937_64 random(TestSeed() + static_cast<uint64_t>(step));
  UpdateInput input;
  MicroBatch batch;
  batch.input_ids = batch.labels = HostTensor(Type{DType::kI32, {2, kLength}});
  for (int64_t i = 0; i < 2 * kLength; ++i) {
    batch.input_ids.Set(i, static_cast<double>(random() % kVocabulary));
    batch.labels.Set(i, static_cast<double>(random() % kVocabulary));
  }
  input.micro_batches.push_back(std::move(batch));
  input.learning_rate = 0.01;
  input.applied = input.step = step;
  input.loss_scale = loss_scale;
  return input;
}

std::unique_ptr<TrainingProgram> Make(Device& device, const TrainingOptions& options) {
  Plan plan;
  plan.micro_batch = 2;
  plan.sequence_length = kLength;
  plan.precision = {DType::kF16, DType::kF16};
  absl::StatusOr<std::unique_ptr<TrainingProgram>> training = TrainingProgram::Make(
      SmallGpt2(R"({"vocab_size": 24, "n_head": 2, "n_embd": 32, "n_layer": 12})"), plan, options,
      device);
  EXPECT_OK(training.status());
  EXPECT_OK((*training)->Allocate());
  for (const StateInfo& info : (*training)->parameters()) {
    EXPECT_OK((*training)->SetParameter(info.name, InitialValue(info, DType::kF32, TestSeed())));
  }
  return *std::move(training);
}

HostTensors StatesOf(TrainingProgram& training) {
  HostTensors states;
  for (const StateHome& home : training.states()) {
    absl::StatusOr<HostTensor> value = training.program().ReadState(home.info.name);
    EXPECT_OK(value.status());
    states[home.info.name] = *std::move(value);
  }
  return states;
}

TEST(SkippedUpdateTest, ChangesNoBit) {
  std::unique_ptr<Device> host = NewHostDevice({.threads = 1, .kernels = CpuKernels()});
  std::unique_ptr<TrainingProgram> expected = Make(*host, {});
  ASSERT_OK_AND_ASSIGN(
      std::unique_ptr<Device> device,
      NewCappedDevice({.memory_bytes = 400'000,
                       .threads = 1,
                       .kernels = CpuKernels(),
                       .late_seed = TestSeed()}));
  TrainingOptions options;
  ProgramOptions& program = options.compile.program;
  program.placer = std::make_shared<GeminiPlacer>(GeminiOptions{});
  program.host_memory_bytes = 1'000'000;
  program.disk_memory_bytes = int64_t{16} << 20;
  program.disk = std::make_shared<MemoryDisk>(program.disk_memory_bytes);
  std::unique_ptr<TrainingProgram> placed = Make(*device, options);
  // Of what the update reads from disk some comes while gradients are made.
  const TierTraffic early = TrafficOf(placed->program().plan(), kAccumulatePhase);
  EXPECT_GT(early.disk_read[static_cast<size_t>(Moved::kStates)], 0);
  int skipped = 0;
  for (int64_t step = 0; step < 6; ++step) {
    // Beyond the largest finite f16.
    const UpdateInput input = InputOf(step, step % 2 == 1 ? 0x1p40 : 0x1p8);
    ASSERT_OK_AND_ASSIGN(const UpdateResult a, expected->RunUpdate(input));
    ASSERT_OK_AND_ASSIGN(const UpdateResult b, placed->RunUpdate(input));
    EXPECT_EQ(a.skipped, b.skipped);
    EXPECT_EQ(a.loss, b.loss);
    skipped += a.skipped.empty() ? 0 : 1;
    EXPECT_TRUE(StatesOf(*expected) == StatesOf(*placed)) << step;
  }
  EXPECT_EQ(skipped, 3);
}

}  // namespace
}  // namespace colossus
