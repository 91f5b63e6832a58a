// Communication beside compute, in virtual time, on the Program of one rank of four.
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/testing/status_matchers.h"
#include "collectives/cost.h"
#include "gtest/gtest.h"
#include "parallel/compile.h"
#include "parallel/plan.h"
#include "shardformer/presets.h"
#include "tensor/exec/device.h"
#include "tensor/exec/timeline.h"
#include "tensor/kernels/collective/collective_kernels.h"
#include "tensor/kernels/cpu/cpu_list.h"

namespace colossus {
namespace {

// An update among many, on links that need about a third of the time of its compute. The model has
// an eighth of its parameters in the tied embedding, whose gradient is complete when nothing is
// left to compute beside its reduction.
PhaseTime UpdateTime(int zero, int64_t micro_batches, bool overlap) {
  absl::StatusOr<ModelConfig> config = PresetConfig("gpt2-355m");
  CHECK_OK(config.status());
  Plan plan;
  plan.stages = {{.ranks = {0, 1, 2, 3}, .mesh = {{"data", 4}}}};
  plan.zero = zero;
  plan.micro_batch = 4;
  plan.micro_batches = micro_batches;
  plan.sequence_length = 512;
  plan.precision = {DType::kBF16, DType::kBF16};
  absl::StatusOr<Mesh> mesh = PlanMesh(plan, *config);
  CHECK_OK(mesh.status());
  LinkRates links;
  links.beta = 1.0 / 1e9;
  CollectiveKernels kernels(*mesh, CpuKernels(), links);
  NullDeviceOptions device_options;
  device_options.kernels = kernels.list();
  std::unique_ptr<Device> device = NewNullDevice(device_options);
  TrainingOptions options;
  options.compile.program.overlap = overlap;
  absl::StatusOr<CompiledTraining> training =
      CompileTraining(*config, plan, options, *device, /*rank=*/0);
  CHECK_OK(training.status());
  const std::vector<int> phases = {kAccumulatePhase, kMeasurePhase, kUpdatePhase};
  return PredictPhases(*training->program, phases, 3) -
         PredictPhases(*training->program, phases, 2);
}

// Protects: exposed communication is at most 10 % of an update where compute suffices, and a good
// part of it where nothing overlaps. Stage 1 reduces when all of backward has run.
TEST(OverlapTest, ExposedCommunication) {
  for (int64_t micro_batches : {1, 2}) {
    for (int zero = 0; zero <= 3; ++zero) {
      const PhaseTime beside = UpdateTime(zero, micro_batches, true);
      const PhaseTime alone = UpdateTime(zero, micro_batches, false);
      SCOPED_TRACE(absl::StrCat("ZeRO ", zero, ", ", micro_batches, " micro-batches\n  beside: ",
                                ToText(beside), "\n  alone:  ", ToText(alone)));
      RecordProperty(absl::StrCat("zero_", zero, "_", micro_batches), ToText(beside));
      EXPECT_LE(std::abs(alone.exposed() - alone.link), 1e-9 * alone.link);
      EXPECT_LE(std::abs(beside.link - alone.link), 1e-9 * alone.link);
      EXPECT_GE(alone.exposed(), 0.12 * alone.seconds);
      EXPECT_LE(beside.exposed(), zero == 1 ? 0.8 * alone.exposed() : 0.1 * beside.seconds);
    }
  }
}

}  // namespace
}  // namespace colossus
