// SmallTrainer: a tiny model in training, for tests of whole updates.
//
// Purpose: configs from JSON text, parameters from a function, updates whose mean gradients come
// back by parameter name. On the host device, with CPU kernels unless others are given.
// Thread-safety: one thread. Ownership: owns device and program.
//
//   ASSERT_OK_AND_ASSIGN(auto trainer, SmallTrainer::Make(SmallLlama(), SmallPlan(1, 1, 8)));
//   ASSERT_OK_AND_ASSIGN(SmallUpdate update, trainer->Update({Rows({ids}, {labels})}));
#ifndef COLOSSUS_TESTS_PARITY_SMALL_TRAINER_H_
#define COLOSSUS_TESTS_PARITY_SMALL_TRAINER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parallel/plan.h"
#include "parallel/training_program.h"
#include "shardformer/config.h"
#include "tensor/exec/device.h"
#include "tensor/graph/state.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/kernel.h"
#include "tensor/optim/update.h"

namespace colossus {

// Two layers, untied, vocabulary 13, 16 positions; `changes` is a JSON object merged over it.
ModelConfig SmallGpt2(absl::string_view changes = "{}");
ModelConfig SmallLlama(absl::string_view changes = "{}");    // 4 query heads, 2 key heads
ModelConfig SmallMistral(absl::string_view changes = "{}");  // a window of 3
ModelConfig SmallQwen2(absl::string_view changes = "{}");

using Table = std::vector<std::vector<int32_t>>;  // rows of one length

// [rows, length] of i32.
HostTensor IntRows(const Table& rows);

// A micro-batch without packing. The first row's index in the global batch is 0.
MicroBatch Rows(const Table& ids, const Table& labels);

// [global_dims] of f32: fairly large random values, so that attention and norms show.
HostTensor RandomParameter(const StateInfo& info);

using ParameterFunction = std::function<HostTensor(const StateInfo&)>;

struct SmallUpdate {
  UpdateResult result;
  std::map<std::string, std::vector<double>> gradients;  // of the mean loss, by parameter
};

class SmallTrainer {
 public:
  // Parameters are set from `values`. No `kernels`: those of the CPU.
  static absl::StatusOr<std::unique_ptr<SmallTrainer>> Make(
      const ModelConfig& config, const Plan& plan, const Optimizer& optimizer = {},
      const ParameterFunction& values = RandomParameter, KernelList kernels = {});

  absl::StatusOr<SmallUpdate> Update(std::vector<MicroBatch> micro_batches,
                                     double learning_rate = 0, double clip_norm = 0);

  // Every state's bytes by name.
  absl::StatusOr<HostTensors> States();
  TrainingProgram& program() { return *program_; }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<TrainingProgram> program_;
  int64_t step_ = 0, applied_ = 0;
};

// A plan of `micro_batches` micro-batches of `rows` rows.
Plan SmallPlan(int64_t rows, int64_t micro_batches, int64_t length);

}  // namespace colossus

#endif  // COLOSSUS_TESTS_PARITY_SMALL_TRAINER_H_
