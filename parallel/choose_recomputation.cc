#include "parallel/choose_recomputation.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "base/status.h"
#include "parallel/compile.h"
#include "parallel/rank_graph.h"
#include "tensor/exec/memory_plan.h"
#include "tensor/exec/program.h"
#include "tensor/host_tensor.h"
#include "tensor/kernels/collective/collective_kernels.h"

namespace colossus {
namespace {

// From the one that computes least to the one that keeps least.
constexpr Recomputation kWays[] = {Recomputation::kNone, Recomputation::kCheap,
                                   Recomputation::kSelective, Recomputation::kBlock};

struct Predicted {
  double seconds = 0;
  bool moves = false;  // anything between tiers
};

absl::StatusOr<Predicted> PredictRank(const ModelConfig& config, const Plan& plan,
                                      const TrainingOptions& options, const Device& device,
                                      int rank) {
  ASSIGN_OR_RETURN(const MeshPlace place, MeshPlace::Of(plan, config, rank));
  const CollectiveKernels kernels(place.mesh, device.kernels());  // of ranks that are not there
  NullDeviceOptions null;
  null.memory_bytes = device.capacity_bytes();
  null.threads = device.threads();
  null.kernels = kernels.list();
  null.copy_bytes_per_second = options.compile.program.transfer_rates.link_bytes_per_second;
  const std::unique_ptr<Device> virtual_device = NewNullDevice(null);
  ASSIGN_OR_RETURN(CompiledTraining training,
                   CompileTraining(config, plan, options, *virtual_device, rank));
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

// Of the slowest stage, since all wait for it.
absl::StatusOr<Predicted> Predict(const ModelConfig& config, const Plan& plan,
                                  const TrainingOptions& options, const Device& device) {
  Predicted slowest;
  for (const StagePlan& stage : plan.stages) {
    ASSIGN_OR_RETURN(const Predicted predicted,
                     PredictRank(config, plan, options, device, stage.ranks[0]));
    slowest.moves = slowest.moves || predicted.moves;
    slowest.seconds = std::max(slowest.seconds, predicted.seconds);
  }
  return slowest;
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
