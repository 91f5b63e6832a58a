// Updates of the presets on the host device: tokens per second.
//
//   bazel run //parallel:training_program_benchmark -- --benchmark_filter=tiny
#include <memory>
#include <string>

#include "base/check.h"
#include "base/parallel_for.h"
#include "benchmark/benchmark.h"
#include "parallel/training_program.h"
#include "shardformer/initialize.h"
#include "shardformer/presets.h"
#include "tensor/kernels/cpu/cpu_list.h"

namespace colossus {
namespace {

void Update(benchmark::State& state, const char* preset, int64_t rows, int64_t length,
            DType compute) {
  const int threads = Threads();
  absl::StatusOr<ModelConfig> config = PresetConfig(preset);
  CHECK_OK(config);
  Plan plan;
  plan.micro_batch = rows;
  plan.sequence_length = length;
  plan.precision = {compute, compute};
  std::unique_ptr<Device> device =
      NewHostDevice({.threads = threads, .kernels = CpuKernels()});
  absl::StatusOr<std::unique_ptr<TrainingProgram>> training =
      TrainingProgram::Make(*config, plan, {}, *device);
  CHECK_OK(training);
  CHECK_OK((*training)->Allocate());
  for (const StateInfo& info : (*training)->parameters()) {
    CHECK_OK((*training)->SetParameter(info.name, InitialValue(info, DType::kF32, 1)));
  }
  UpdateInput input;
  HostTensor ids(Type{DType::kI32, {rows, length}});
  for (int64_t i = 0; i < rows * length; ++i) ids.Set(i, (i * 7919) % config->vocabulary);
  input.micro_batches.push_back({ids, ids, {}, {}, 0});
  input.learning_rate = 1e-4;
  for (auto _ : state) {
    absl::StatusOr<UpdateResult> result = (*training)->RunUpdate(input);
    CHECK_OK(result);
    ++input.applied;
  }
  state.counters["tokens/s"] = benchmark::Counter(static_cast<double>(rows * length),
                                                  benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK_CAPTURE(Update, tiny_f32, "gpt2-tiny", 16, 256, DType::kF32)->UseRealTime();
BENCHMARK_CAPTURE(Update, tiny_bf16, "gpt2-tiny", 16, 256, DType::kBF16)->UseRealTime();
BENCHMARK_CAPTURE(Update, m30_bf16, "gpt2-30m", 8, 512, DType::kBF16)->UseRealTime();
BENCHMARK_CAPTURE(Update, m124_bf16, "gpt2-124m", 4, 512, DType::kBF16)->UseRealTime();
BENCHMARK_CAPTURE(Update, m124_f32, "gpt2-124m", 4, 512, DType::kF32)->UseRealTime();

}  // namespace
}  // namespace colossus
