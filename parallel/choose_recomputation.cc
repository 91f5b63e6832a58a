#include "parallel/choose_recomputation.h"

#include <limits>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "base/status.h"
#include "parallel/compile.h"
#include "tensor/exec/memory_plan.h"
#include "tensor/exec/program.h"
#include "tensor/host_tensor.h"

namespace colossus {
namespace {

// From the one that computes least to the one that keeps least.
constexpr Recomputation kWays[] = {Recomputation::kNone, Recomputation::kCheap,
                                   Recomputation::kSelective, Recomputation::kBlock};

struct Predicted {
  double seconds = 0;
  bool moves = false;  // anything between tiers
};

absl::StatusOr<Predicted> Predict(const ModelConfig& config, const Plan& plan,
                                  const TrainingOptions& options, const Device& device) {
  NullDeviceOptions null;
  null.memory_bytes = device.capacity_bytes();
  null.threads = device.threads();
  null.kernels = device.kernels();
  null.copy_bytes_per_second = options.compile.program.transfer_rates.link_bytes_per_second;
  const std::unique_ptr<Device> virtual_device = NewNullDevice(null);
  ASSIGN_OR_RETURN(CompiledTraining training,
                   CompileTraining(config, plan, options, *virtual_device));
  RETURN_IF_ERROR(training.program->Allocate());
  Predicted predicted;
  const double start = virtual_device->clock().Seconds();
  for (int phase : {kAccumulatePhase, kMeasurePhase, kUpdatePhase}) {
    const FeedFunction nothing = [](absl::string_view, int) -> const HostTensor* {
      return nullptr;
    };
    RETURN_IF_ERROR(training.program->RunPhase(phase, nothing).status());
    const TierTraffic traffic = TrafficOf(training.program->plan(), phase);
    predicted.moves =
        predicted.moves || Total(traffic.host_to_device) > 0 || Total(traffic.device_to_host) > 0;
  }
  predicted.seconds = virtual_device->clock().Seconds() - start;
  return predicted;
}

}  // namespace

absl::StatusOr<Recomputation> ChooseRecomputation(const ModelConfig& config, const Plan& plan,
                                                  const TrainingOptions& options,
                                                  const Device& device) {
  TrainingOptions trial = options;
  trial.compile.dump_graphs.clear();
  trial.compile.program.disk = nullptr;  // its capacity stays
  trial.validation = false;
  Plan way = plan;
  absl::StatusOr<Recomputation> best = absl::InternalError("nothing was tried");
  double seconds = std::numeric_limits<double>::infinity();
  for (Recomputation recomputation : kWays) {
    way.recomputation = recomputation;
    const absl::StatusOr<Predicted> predicted = Predict(config, way, trial, device);
    if (!predicted.ok()) {
      if (predicted.status().code() != absl::StatusCode::kResourceExhausted) {
        return predicted.status();
      }
      if (!best.ok()) best = predicted.status();
      continue;
    }
    if (predicted->seconds < seconds) {
      seconds = predicted->seconds;
      best = recomputation;
    }
    if (!predicted->moves) break;  // what comes computes more and saves nothing
  }
  return best;
}

}  // namespace colossus
