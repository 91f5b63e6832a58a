// FitSchedule: how many micro-batches a searched pipeline may keep, so that its stages fit.
//
// Purpose: the schedule `searched` keeps to any limit, so it is given the largest that the devices
// have room for. What a stage needs for an order its compiled program tells, to the byte; what one
// micro-batch more takes, two programs. Where even one micro-batch at a time does not fit, as where
// the states alone do not, the limit is what 1f1b keeps, and what does not fit is moved or refused
// as with any other schedule. Ranks look at the programs of each stage's first rank, so all choose
// alike.
// Thread-safety: plain functions.
//
//   ASSIGN_OR_RETURN(ScheduleFit fit, FitSchedule(config, plan, options, *device));
//   options.pipeline.room = fit.room;
#ifndef COLOSSUS_PARALLEL_FIT_SCHEDULE_H_
#define COLOSSUS_PARALLEL_FIT_SCHEDULE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "parallel/plan.h"
#include "parallel/training_step.h"
#include "shardformer/config.h"
#include "tensor/exec/device.h"

namespace colossus {

// Of a stage's program, for an order.
struct StageNeed {
  int64_t bytes = 0;  // of the device
  double kept = 0;    // micro-batches, at most at once
};

// Per stage, of the order that is found for a room (PipelineFacts).
using StageNeeds =
    std::function<absl::StatusOr<std::vector<StageNeed>>(const std::vector<double>& room)>;

struct ScheduleFit {
  std::vector<double> room;  // PipelineFacts::room
  bool fits = true;
};

// `most`: micro-batches of an update. `fallback`: the room where nothing fits. Asks a few times.
// Error: that of `needs`.
absl::StatusOr<ScheduleFit> FitRoom(double most, int64_t device_bytes, const StageNeeds& needs,
                                    const std::vector<double>& fallback);

// Whether the plan's order is searched for.
bool IsSearched(const Plan& plan);

// Of the devices that options.pipeline.device_bytes says. REQUIRES: IsSearched; recomputation is
// chosen. Error: as CompileTraining.
absl::StatusOr<ScheduleFit> FitSchedule(const ModelConfig& config, const Plan& plan,
                                        const TrainingOptions& options, const Device& device);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_FIT_SCHEDULE_H_
