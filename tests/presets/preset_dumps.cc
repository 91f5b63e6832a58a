#include "tests/presets/preset_dumps.h"

#include <memory>

#include "base/file_system.h"
#include "base/status.h"
#include "parallel/compile.h"
#include "parallel/plan.h"
#include "shardformer/config.h"
#include "shardformer/model.h"
#include "shardformer/presets.h"
#include "tensor/exec/device.h"
#include "tensor/kernels/cpu/cpu_list.h"

namespace colossus {
namespace {

constexpr int64_t kTokens = 8;  // few: sizes of values do not make text longer

absl::Status Train(const ModelConfig& config, const Plan& plan, const std::string& folder) {
  std::unique_ptr<Device> device = NewNullDevice({.kernels = CpuKernels()});
  TrainingOptions options;
  options.compile.dump_graphs = folder;
  return CompileTraining(config, plan, options, *device).status();
}

absl::Status Generate(const ModelConfig& config, const std::string& folder) {
  std::unique_ptr<Device> device = NewNullDevice({.kernels = CpuKernels()});
  ForwardOptions forward;
  forward.loss = false;
  forward.logits = true;
  forward.cache_capacity = kTokens;
  CompileOptions options;
  options.dump_graphs = folder;
  return CompileForward(config, forward, options, *device).status();
}

}  // namespace

std::vector<std::string> PresetDumpFolders() { return {"f32", "bf16", "generate"}; }

absl::Status WritePresetDumps(const std::string& preset, const std::string& folder) {
  ASSIGN_OR_RETURN(ModelConfig config, PresetConfig(preset));
  Plan plan;
  plan.sequence_length = kTokens;
  RETURN_IF_ERROR(Train(config, plan, JoinPath(folder, "f32")));
  plan.precision = {DType::kBF16, DType::kBF16};
  plan.recomputation = Recomputation::kBlock;
  plan.micro_batches = 2;
  plan.packed = plan.dropout = true;
  RETURN_IF_ERROR(Train(config, plan, JoinPath(folder, "bf16")));
  return Generate(config, JoinPath(folder, "generate"));
}

}  // namespace colossus
