#include "tests/placement/placed_preset.h"

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "nlohmann/json.hpp"
#include "parallel/training_program.h"
#include "shardformer/config.h"
#include "shardformer/presets.h"
#include "tensor/exec/device.h"
#include "tensor/kernels/cpu/cpu_list.h"
#include "tests/placement/recording_placer.h"

namespace colossus {
namespace {

Plan PlanOf(const PresetJob& job) {
  Plan plan;
  plan.micro_batch = job.rows;
  plan.micro_batches = job.micro_batches;
  plan.sequence_length = job.length;
  plan.precision = {DType::kBF16, DType::kBF16};
  plan.recomputation = job.recomputation;
  plan.accumulation_order = job.order;
  plan.update = job.update;
  return plan;
}

ModelConfig ConfigOf(const PresetJob& job) {
  absl::StatusOr<ModelConfig> config = job.layers == 0 ? PresetConfig(job.preset)
                                                       : ReadModelConfig({{"model_type", "gpt2"},
                                                                          {"n_layer", job.layers},
                                                                          {"n_head", 25},
                                                                          {"n_embd", 1600},
                                                                          {"n_positions", 1024},
                                                                          {"vocab_size", 50257}},
                                                                         "layers");
  CHECK(config.ok()) << config.status();
  return *std::move(config);
}

TrainingOptions OptionsWith(std::shared_ptr<const Placer> placer, const PresetCaps& caps) {
  TrainingOptions options;
  ProgramOptions& program = options.compile.program;
  program.placer = std::move(placer);
  program.host_memory_bytes = caps.host;
  program.disk_memory_bytes = caps.disk;
  program.rates = {
      .flops_f32 = 20e12, .flops_16 = 40e12, .bytes_per_second = 700e9, .launch_seconds = 5e-6};
  program.transfer_rates.link_bytes_per_second = caps.link_bytes_per_second;
  return options;
}

std::unique_ptr<Device> NullDevice(const PresetCaps& caps) {
  return NewNullDevice({.memory_bytes = caps.device,
                        .threads = 2,
                        .kernels = CpuKernels(),
                        .copy_bytes_per_second = caps.link_bytes_per_second});
}

UpdateInput InputOf(const PresetJob& job) {
  UpdateInput input;
  for (int64_t m = 0; m < job.micro_batches; ++m) {
    const HostTensor tokens(Type{DType::kI32, {job.rows, job.length}});
    input.micro_batches.push_back({tokens, tokens, {}, {}, m});
  }
  return input;
}

}  // namespace

PresetRun RunPreset(const PresetJob& job, const PresetCaps& caps) {
  PresetRun run;
  // Placed for the usual link, whatever the device's is.
  auto placer = std::make_shared<RecordingPlacer>(std::make_shared<GeminiPlacer>(
      GeminiOptions{.policy = caps.policy, .link_bytes_per_second = 12e9}));
  std::unique_ptr<Device> device = NullDevice(caps);
  absl::StatusOr<std::unique_ptr<TrainingProgram>> training = TrainingProgram::Make(
      ConfigOf(job), PlanOf(job), OptionsWith(caps.placed ? placer : nullptr, caps), *device);
  run.asked = placer->asked();
  run.status = training.status();
  if (!training.ok()) return run;
  run.status = (*training)->Allocate();
  const double start = device->clock().Seconds();
  run.status.Update((*training)->RunUpdate(InputOf(job)).status());
  run.seconds = device->clock().Seconds() - start;
  run.device_bytes = (*training)->program().plan().device_bytes;
  for (const StateInfo& info : (*training)->parameters()) {
    run.parameters += ElementCount(info.global_dims);
  }
  if (!caps.placed) return run;
  run.report =
      ReportPlacement(placer->trace(), placer->placement(), placer->tiers(),
                      {.link_bytes_per_second = caps.link_bytes_per_second}, kUpdatePhases);
  return run;
}

StepTrace TraceOfPreset(const PresetJob& job) {
  auto placer = std::make_shared<RecordingPlacer>(nullptr);
  std::unique_ptr<Device> device = NullDevice({});
  const absl::Status status =
      TrainingProgram::Make(ConfigOf(job), PlanOf(job), OptionsWith(placer, {}), *device).status();
  CHECK(status.code() == absl::StatusCode::kCancelled) << status;
  return placer->trace();
}

}  // namespace colossus
