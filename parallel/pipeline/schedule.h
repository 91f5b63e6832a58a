// Schedule: the order of a pipeline's actions, as rules.
//
// Purpose: a schedule is a set of "must run before" predicates over the actions of a stage, a
// placement of the model's parts, and a bound on the activations it keeps. Rules come on top of
// what always holds: data dependences, and micro-batch order within each lane of actions. What
// they leave open the list scheduler decides (timeline.h): backwards first, then forwards, then
// weight gradients.
// Thread-safety: plain values and functions of their arguments. Ownership: none.
//
//   ASSIGN_OR_RETURN(const Schedule* schedule, FindSchedule("zb-h1"));   // schedule_list.h
//   ASSIGN_OR_RETURN(Timeline timeline, Simulate(*schedule, input));     // timeline.h
#ifndef COLOSSUS_PARALLEL_PIPELINE_SCHEDULE_H_
#define COLOSSUS_PARALLEL_PIPELINE_SCHEDULE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parallel/pipeline/action.h"
#include "parallel/pipeline/costs.h"

namespace colossus {

// Whether `a` must run before `b`; both are of one stage and of different lanes. What holds for
// `b` must hold for the later ones of its lane, and what holds for `a` for the earlier ones.
using MustRunBefore = std::function<bool(const Action& a, const Action& b)>;

struct Rules {
  PartPlacement placement = PartPlacement::kLoop;
  bool split_backward = false;
  MustRunBefore must_run_before;
  // Per stage, the most activations that are kept at once, where a micro-batch's through the whole
  // stage count 1. An order that keeps more is an error.
  std::vector<double> memory_bound;
};

// What `searched` makes short; both count from the start of the first action of all or of a stage.
enum class Objective {
  kSpan,      // of the longest stage: stages start the next update one after another
  kMakespan,  // of all stages: they wait for each other at the update
};

struct ScheduleInput {
  PipelineShape shape;
  PipelineCosts costs;                   // fixed schedules do not depend on them
  double memory_limit = kNoMemoryLimit;  // of each stage, in the unit of the costs' activations
  Objective objective = Objective::kSpan;
  int64_t effort = 150'000'000;  // actions that `searched` may place or evaluate
};

struct Schedule {
  absl::string_view name;
  absl::string_view summary;
  int default_chunks;
  // InvalidArgument: not defined for the shape, with the nearest shapes that are.
  absl::StatusOr<Rules> (*rules)(const ScheduleInput& input);
};

// Actions run by increasing key. REQUIRES: keys grow along a lane.
MustRunBefore ByKey(std::function<int64_t(const Action&)> key);

// The given order of each stage. REQUIRES: `orders` holds every action once, lanes in order.
MustRunBefore InOrder(const PipelineActions& actions, const StageOrders& orders);

// Refuses other numbers of chunks; `instead` says what is defined for them.
absl::Status RequireChunks(absl::string_view schedule, const PipelineShape& shape, int chunks,
                           absl::string_view instead);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_SCHEDULE_H_
