// LayoutRun: a small model trained on all ranks of a plan, as threads, for comparison with others.
//
// Purpose: rows, parameters and random masks depend on global indices only, so runs that differ in
// their layout alone must agree ("equal" in tests/layouts/README.md). What comes back is whole:
// gradients and states put together from the ranks, with copies checked to be the same bits.
// Thread-safety: functions of their arguments. Ownership: plain values.
//
//   LayoutRun run{SmallLlama(), plan};
//   ASSERT_OK_AND_ASSIGN(LayoutResult result, Train(run));
#ifndef COLOSSUS_TESTS_LAYOUTS_LAYOUT_RUN_H_
#define COLOSSUS_TESTS_LAYOUTS_LAYOUT_RUN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "parallel/plan.h"
#include "parallel/training_program.h"
#include "shardformer/config.h"
#include "tensor/exec/device.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/kernel.h"
#include "tensor/optim/update.h"

namespace colossus {

struct LayoutRun {
  ModelConfig config;
  Plan plan;
  Optimizer optimizer = {};
  int updates = 3;
  double learning_rate = 0.05;
  double clip_norm = 0;
  double loss_scale = 1;
  bool overlap = true;  // communication beside compute
  uint64_t seed = 7;
  // Of all updates together, as of a data set that ends: rows behind the last one do not count, and
  // micro-batches of such rows alone are not there. 0: no end.
  int64_t all_rows = 0;
  int gradients_of = 0;                                // which update's gradients come back
  std::function<HostTensor(const StateInfo&)> values;  // none: fairly large random ones
  // Content of row `row` of the global batch, counted over all updates. None: random tokens, about
  // one label in eight does not count; two documents a row if the plan is packed.
  std::function<void(int64_t row, std::vector<int32_t>& ids, std::vector<int32_t>& labels,
                     std::vector<int32_t>& positions, std::vector<int32_t>& segments)>
      row;
  // Stages go by the times of a trial that ran first (parallel/time_pipeline.h).
  bool trial = false;
  // Of a rank: its device, with one thread (none: host memory), and changes to its options.
  std::function<std::unique_ptr<Device>(int rank, KernelList kernels)> device;
  std::function<void(int rank, TrainingOptions& options)> change_options;
};

struct LayoutResult {
  std::vector<double> losses, norms;                     // by update
  std::vector<std::string> skipped;                      // by update
  std::map<std::string, std::vector<double>> gradients;  // of the mean loss of one update
  HostTensors states;                                    // after the last update, by name
};

// Error: the first of any rank. Ranks that should agree and do not: Internal.
absl::StatusOr<LayoutResult> Train(const LayoutRun& run);

// Fairly large values, so that attention and norms show; a function of name and dims. f32.
HostTensor RandomValues(const StateInfo& info);

// As models of the family begin: matrices of a standard deviation of 0.02, norms 1, biases 0. f32.
HostTensor FirstValues(const StateInfo& info);

// A plan on a mesh with rows of `length`; the axis "stage", if it is there, comes first.
Plan LayoutPlan(std::vector<MeshAxis> mesh, int64_t micro_batch, int64_t micro_batches,
                int64_t length);

// The same of stages with meshes of their own; micro_batch: of each rank along data of the first.
Plan StagesPlan(const std::vector<std::vector<MeshAxis>>& meshes, int64_t micro_batch,
                int64_t micro_batches, int64_t length);

}  // namespace colossus

#endif  // COLOSSUS_TESTS_LAYOUTS_LAYOUT_RUN_H_
