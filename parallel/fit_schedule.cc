#include "parallel/fit_schedule.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "base/status.h"
#include "parallel/compile.h"
#include "parallel/pipeline/costs.h"
#include "parallel/pipeline/schedule_list.h"
#include "parallel/pipeline/timeline.h"
#include "parallel/rank_graph.h"
#include "parallel/stages/stage_memory.h"
#include "tensor/exec/program.h"
#include "tensor/kernels/collective/collective_kernels.h"

namespace colossus {
namespace {

// Rooms between one micro-batch and all that are tried before one is taken.
constexpr int kTries = 4;

bool Fit(const std::vector<StageNeed>& needs, int64_t device_bytes) {
  return std::all_of(needs.begin(), needs.end(),
                     [&](const StageNeed& need) { return need.bytes <= device_bytes; });
}

// What a stage may keep, if it needs the same for each micro-batch between the two. Where the
// larger does not fit, less than that one keeps.
double RoomBetween(const StageNeed& least, const StageNeed& larger, double most,
                   int64_t device_bytes) {
  const auto left = static_cast<double>(device_bytes - least.bytes);
  const auto more = static_cast<double>(larger.bytes - least.bytes);
  const double kept = larger.kept - least.kept;
  if (more <= 0) return most;
  return std::clamp(least.kept + std::max(0.0, kept) * left / more, 1.0, most);
}

// The order of one room, found once for all stages, and what each of them needs for it.
class Prober {
 public:
  Prober(const ModelConfig& config, const Plan& plan, const TrainingOptions& options,
         const Device& device)
      : config_(config), plan_(plan), options_(options), device_(device) {
    options_.compile.dump_graphs.clear();
    // All on the device, whatever it has.
    options_.compile.program.placer = nullptr;
    options_.compile.program.disk = nullptr;
  }

  absl::StatusOr<std::vector<StageNeed>> Needs(const std::vector<double>& room) {
    options_.pipeline.room = room;
    options_.pipeline.timeline = nullptr;
    std::vector<StageNeed> needs;
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      ASSIGN_OR_RETURN(const StageNeed need, NeedOf(s));
      needs.push_back(need);
    }
    return needs;
  }

 private:
  absl::StatusOr<StageNeed> NeedOf(size_t stage) {
    const int rank = plan_.stages[stage].ranks[0];
    ASSIGN_OR_RETURN(const MeshPlace place,
                     MeshPlace::Of(plan_.OfStage(static_cast<int>(stage)), config_, rank));
    const CollectiveKernels kernels(place.mesh, device_.kernels());  // of ranks that are not there
    NullDeviceOptions null;
    null.threads = device_.threads();
    null.kernels = kernels.list();
    const std::unique_ptr<Device> any = NewNullDevice(null);
    ASSIGN_OR_RETURN(const CompiledTraining training,
                     CompileTraining(config_, plan_, options_, *any, rank));
    const Timeline& timeline = training.pipeline->timeline;
    options_.pipeline.timeline = std::make_shared<const Timeline>(timeline);
    const std::vector<double> kept =
        Measure(timeline, UniformCosts(timeline.shape, StageCosts())).peak_activations;
    return StageNeed{training.program->plan().device_bytes, kept[stage]};
  }

  const ModelConfig& config_;
  const Plan& plan_;
  TrainingOptions options_;
  const Device& device_;
};

// By stage. Of several chunks all parts count alike.
absl::StatusOr<std::vector<double>> RoomOf1f1b(const Plan& plan) {
  ASSIGN_OR_RETURN(const Schedule* schedule, FindSchedule(plan.schedule));
  ASSIGN_OR_RETURN(const PipelineShape shape, ShapeOf(plan));
  std::vector<double> kept = KeptOfParts(*schedule, shape);
  kept.resize(plan.stages.size());
  return kept;
}

}  // namespace

absl::StatusOr<ScheduleFit> FitRoom(double most, int64_t device_bytes, const StageNeeds& needs,
                                    const std::vector<double>& fallback) {
  ASSIGN_OR_RETURN(std::vector<StageNeed> larger, needs({}));
  if (Fit(larger, device_bytes)) return ScheduleFit{};
  const std::vector<double> ones(larger.size(), 1);
  ASSIGN_OR_RETURN(const std::vector<StageNeed> least, needs(ones));
  if (!Fit(least, device_bytes)) return ScheduleFit{fallback, false};
  for (int i = 0; i < kTries; ++i) {
    std::vector<double> room;
    for (size_t s = 0; s < larger.size(); ++s) {
      room.push_back(RoomBetween(least[s], larger[s], most, device_bytes));
    }
    ASSIGN_OR_RETURN(const std::vector<StageNeed> tried, needs(room));
    if (Fit(tried, device_bytes)) return ScheduleFit{std::move(room)};
    for (size_t s = 0; s < larger.size(); ++s) {
      if (tried[s].bytes > device_bytes) larger[s] = tried[s];
    }
  }
  return ScheduleFit{ones};
}

bool IsSearched(const Plan& plan) {
  return plan.stages.size() > 1 && plan.schedule == kSearchedSchedule;
}

absl::StatusOr<ScheduleFit> FitSchedule(const ModelConfig& config, const Plan& plan,
                                        const TrainingOptions& options, const Device& device) {
  const int64_t device_bytes = options.pipeline.device_bytes.value_or(device.capacity_bytes());
  if (device_bytes == INT64_MAX) return ScheduleFit{};
  ASSIGN_OR_RETURN(std::vector<double> fallback, RoomOf1f1b(plan));
  const ProgramOptions& program = options.compile.program;
  if (program.placer != nullptr && !program.place_only_what_does_not_fit) {
    return ScheduleFit{std::move(fallback), false};  // it moves what would fit
  }
  Prober prober(config, plan, options, device);
  return FitRoom(static_cast<double>(plan.micro_batches), device_bytes,
                 [&](const std::vector<double>& room) { return prober.Needs(room); }, fallback);
}

}  // namespace colossus
