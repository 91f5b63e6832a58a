// Timeline: an update of a pipeline in virtual time.
//
// Purpose: what a schedule comes to: when each action runs, how long the update takes, what each
// stage keeps. The order per stage is what a trainer runs; it comes from the list scheduler that
// orders a rank's step (tensor/exec/list_scheduler.h), with a resource for each stage. A stage
// starts an action as soon as its order and its data allow.
// Thread-safety: plain values and functions of their arguments. Ownership: none.
//
//   ASSIGN_OR_RETURN(Timeline timeline, Simulate(*schedule, input));
//   TimelineFigures figures = Measure(timeline, input.costs);
#ifndef COLOSSUS_PARALLEL_PIPELINE_TIMELINE_H_
#define COLOSSUS_PARALLEL_PIPELINE_TIMELINE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "parallel/pipeline/action.h"
#include "parallel/pipeline/costs.h"
#include "parallel/pipeline/schedule.h"
#include "tensor/exec/list_scheduler.h"

namespace colossus {

struct TimedAction {
  Action action;
  double start = 0, end = 0;
};

struct Timeline {
  PipelineShape shape;
  PartPlacement placement = PartPlacement::kLoop;
  bool split_backward = false;
  std::vector<std::vector<TimedAction>> stages;  // in running order

  PipelineActions actions() const { return {shape, placement, split_backward}; }
  StageOrders orders() const;
};

// Checks shape and costs, makes the schedule's rules and runs them.
// InvalidArgument: a shape without stages or micro-batches, or that the schedule does not define;
// costs that do not fit; a memory limit under what the schedule keeps, which the message tells.
// Internal: rules that contradict each other or the data, or that keep more than they promise.
absl::StatusOr<Timeline> Simulate(const Schedule& schedule, const ScheduleInput& input);

// Rules alone; errors as above.
absl::StatusOr<Timeline> RunRules(const Rules& rules, const PipelineShape& shape,
                                  const PipelineCosts& costs);

// A task for each action, by its number, with data dependences and micro-batch order.
ListScheduler SchedulerOf(const PipelineActions& actions, const PipelineCosts& costs);

struct TimelineFigures {
  double makespan = 0;  // end of the last action
  double span = 0;      // longest stage, from the start of its first to the end of its last action
  double bubble_rate = 0;                // share of the span in which the busiest stage would idle
  std::vector<double> peak_activations;  // per stage, in the unit of the costs' activations
  int64_t messages = 0;                  // activations and their gradients sent between stages
};
TimelineFigures Measure(const Timeline& timeline, const PipelineCosts& costs);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_TIMELINE_H_
