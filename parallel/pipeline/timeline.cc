#include "parallel/pipeline/timeline.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace colossus {
namespace {

absl::Status CheckShape(const PipelineShape& shape) {
  if (shape.stages > 0 && shape.chunks > 0 && shape.micro_batches > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a pipeline has at least 1 stage, 1 chunk and 1 micro-batch, not ", ToString(shape)));
}

// The last action of each lane that must run before each one of another.
void AddRules(const PipelineActions& actions, const MustRunBefore& before, int lane, int later,
              ListScheduler& scheduler) {
  int micro_batches = actions.shape().micro_batches;
  int first = lane * micro_batches, passed = 0;
  for (int m = 0; m < micro_batches; ++m) {
    int action = later * micro_batches + m;
    int had = passed;
    while (passed < micro_batches && before(actions.At(first + passed), actions.At(action))) {
      ++passed;
    }
    if (passed > had) scheduler.MustRunBefore(first + passed - 1, action);
  }
}

absl::Status CircleError(const PipelineActions& actions, const std::vector<int>& order) {
  std::vector<bool> ran(actions.size(), false);
  for (int action : order) ran[action] = true;
  std::string waiting;
  for (int stage = 0; stage < actions.shape().stages; ++stage) {
    for (int i = 0; i < actions.per_stage(); ++i) {
      int action = stage * actions.per_stage() + i;
      if (ran[action]) continue;
      absl::StrAppend(&waiting, waiting.empty() ? "" : "; ", ToString(actions.At(action)));
      break;
    }
  }
  return absl::InternalError(
      absl::StrCat("pipeline: the schedule's rules and the data wait for each other: ", waiting));
}

absl::Status CheckBound(const Rules& rules, const Timeline& timeline) {
  const PipelineShape& shape = timeline.shape;
  std::vector<double> peak = Measure(timeline, UniformCosts(shape, StageCosts())).peak_activations;
  for (int stage = 0; stage < shape.stages; ++stage) {
    if (peak[stage] <= rules.memory_bound[stage] * (1 + kActivationSlack)) continue;
    return absl::InternalError(absl::StrCat(
        "pipeline: stage ", stage, " keeps the activations of ", peak[stage],
        " micro-batches, but the schedule promises at most ", rules.memory_bound[stage]));
  }
  return absl::OkStatus();
}

absl::Status CheckLimit(const Schedule& schedule, const ScheduleInput& input,
                        const Timeline& timeline) {
  std::vector<double> peak = Measure(timeline, input.costs).peak_activations;
  double most = *std::max_element(peak.begin(), peak.end());
  if (most <= input.memory_limit * (1 + kActivationSlack)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "memory_limit ", input.memory_limit, " is under the ", most, " that schedule ", schedule.name,
      " keeps with ", ToString(input.shape), ": raise it to ", most,
      " or choose another schedule; searched keeps to any limit that a micro-batch fits"));
}

}  // namespace

StageOrders Timeline::orders() const {
  PipelineActions numbers = actions();
  StageOrders orders(stages.size());
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    for (const TimedAction& timed : stages[stage]) {
      orders[stage].push_back(numbers.Index(timed.action));
    }
  }
  return orders;
}

ListScheduler SchedulerOf(const PipelineActions& actions, const PipelineCosts& costs) {
  ListScheduler scheduler;
  for (int action = 0; action < actions.size(); ++action) {
    scheduler.AddTask(actions.StageAt(action), DurationOf(actions, costs, action));
  }
  for (int action = 0; action < actions.size(); ++action) {
    if (int source = actions.SourceOf(action); source >= 0) {
      scheduler.MustRunBefore(source, action, DelayOf(actions, costs, source, action));
    }
    if (actions.MicroBatchAt(action) > 0) scheduler.MustRunBefore(action - 1, action);
  }
  return scheduler;
}

absl::StatusOr<Timeline> RunRules(const Rules& rules, const PipelineShape& shape,
                                  const PipelineCosts& costs) {
  Timeline timeline{shape, rules.placement, rules.split_backward, {}};
  PipelineActions actions = timeline.actions();
  ListScheduler scheduler = SchedulerOf(actions, costs);
  int lanes = actions.lanes_per_stage();
  for (int lane = 0; lane < lanes * shape.stages; ++lane) {
    int first = lane / lanes * lanes;  // of the stage
    for (int later = first; later < first + lanes; ++later) {
      if (later != lane) AddRules(actions, rules.must_run_before, lane, later, scheduler);
    }
  }
  ListScheduler::Timetable times = scheduler.Run();
  if (static_cast<int>(times.order.size()) < actions.size()) {
    return CircleError(actions, times.order);
  }
  timeline.stages.resize(shape.stages);
  for (int action : times.order) {
    timeline.stages[actions.StageAt(action)].push_back(
        {actions.At(action), times.start[action], times.end[action]});
  }
  RETURN_IF_ERROR(CheckBound(rules, timeline));
  return timeline;
}

absl::StatusOr<Timeline> Simulate(const Schedule& schedule, const ScheduleInput& input) {
  RETURN_IF_ERROR(CheckShape(input.shape));
  RETURN_IF_ERROR(CheckCosts(input.shape, input.costs));
  ASSIGN_OR_RETURN(Rules rules, schedule.rules(input));
  ASSIGN_OR_RETURN(Timeline timeline, RunRules(rules, input.shape, input.costs));
  RETURN_IF_ERROR(CheckLimit(schedule, input, timeline));
  return timeline;
}

TimelineFigures Measure(const Timeline& timeline, const PipelineCosts& costs) {
  PipelineActions actions = timeline.actions();
  TimelineFigures figures;
  double busiest = 0;
  for (const std::vector<int>& order : timeline.orders()) {
    double busy = 0;
    for (int action : order) busy += DurationOf(actions, costs, action);
    busiest = std::max(busiest, busy);
    figures.peak_activations.push_back(PeakActivation(actions, costs, order));
  }
  for (const std::vector<TimedAction>& stage : timeline.stages) {
    figures.makespan = std::max(figures.makespan, stage.back().end);
    figures.span = std::max(figures.span, stage.back().end - stage.front().start);
  }
  if (figures.span > 0) {  // rounding aside, no stage is shorter than its work
    figures.bubble_rate = std::max(0.0, (figures.span - busiest) / figures.span);
  }
  for (int part = 1; part < timeline.shape.parts(); ++part) {
    if (actions.StageOf(part) == actions.StageOf(part - 1)) continue;
    figures.messages += 2 * timeline.shape.micro_batches;
  }
  return figures;
}

}  // namespace colossus
