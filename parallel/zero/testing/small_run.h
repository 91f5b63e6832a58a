// SmallRun: updates of a SmallModel on all ranks of its mesh, a thread each.
//
// Purpose: a whole training step around gradients that a test chooses, at any ZeRO stage. What
// comes back is put together from the ranks; that ranks which hold the same hold the same bits is
// checked on the way.
// Thread-safety: functions of their arguments. Ownership: plain values.
//
//   SmallRun run{model, plan};
//   run.gradient = [](const std::string& output, int rank, int micro_batch, int update) { ... };
//   ASSERT_OK_AND_ASSIGN(SmallResult result, RunSmall(run));
#ifndef COLOSSUS_PARALLEL_ZERO_TESTING_SMALL_RUN_H_
#define COLOSSUS_PARALLEL_ZERO_TESTING_SMALL_RUN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "parallel/plan.h"
#include "parallel/training_step.h"
#include "parallel/zero/testing/small_model.h"
#include "tensor/exec/program.h"
#include "tensor/host_tensor.h"
#include "tensor/optim/update.h"

namespace colossus {

struct SmallRun {
  SmallModel model;
  Plan plan;  // micro-batches, precision, ZeRO stage, chunk size
  Optimizer optimizer = {};
  int updates = 1;
  double learning_rate = 1, grad_scale = 1;
  bool fetch_gradients = true;
  bool overlap = true;
  bool late = false;  // on capped devices whose streams run late in random order
  // Changes how a rank's program is compiled: its placer.
  std::function<void(int rank, ProgramOptions& options)> set_program = nullptr;
  // Start values of a whole parameter, and the summand of a rank and micro-batch of the gradient of
  // its part, element by element. None: random ones.
  std::function<std::vector<double>(const std::string& parameter)> values = nullptr;
  std::function<std::vector<double>(const std::string& output, int rank, int micro_batch,
                                    int update)>
      gradient = nullptr;
  // Runs on each rank before it is checked that copies are the same (parallel/check_copies.h).
  std::function<absl::Status(int rank, Program& program)> before_check = nullptr;
};

struct SmallResult {
  std::vector<double> sum_squares;              // by update
  std::map<std::string, HostTensor> gradients;  // whole, of the last update, by parameter
  std::map<std::string, HostTensor> states;     // whole, by name ("moment1/w")
  std::vector<std::map<std::string, CollectiveCounts>> counts;  // of each rank, by axes
  std::vector<int64_t> state_bytes, device_bytes;               // of each rank
};

absl::StatusOr<SmallResult> RunSmall(const SmallRun& run);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_ZERO_TESTING_SMALL_RUN_H_
