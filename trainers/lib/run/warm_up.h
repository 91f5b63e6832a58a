// WarmUp: measures updates of a placed program and lets its placement follow.
//
// Purpose: the first placement of a run goes by predicted times. The second update (the first one
// touches everything for the first time) is measured, instruction by instruction, and the placement
// is made again by what the slowest rank needed; so it is whenever updates later take much longer
// or shorter than they did. No bit depends on it. Stages of a pipeline run different steps: each
// places by the times of its own ranks, and some may not need to.
// Thread-safety: one thread a rank; Done is collective over the group. Ownership: the program must
// outlive it.
//
//   WarmUp warm_up(program, group, stage);           // stage: the ranks that run the same step
//   StepObserver* measure = warm_up.Next();          // null: this update is not measured
//   training.RunUpdate(input, measure);
//   ASSIGN_OR_RETURN(const std::string what, warm_up.Done(seconds));   // empty: nothing changed
#ifndef COLOSSUS_TRAINERS_LIB_RUN_WARM_UP_H_
#define COLOSSUS_TRAINERS_LIB_RUN_WARM_UP_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/exec/program.h"
#include "tensor/exec/step_times.h"
#include "trainers/lib/ranks/rank_group.h"

namespace colossus {

class WarmUp {
 public:
  WarmUp(Program& program, RankGroup group, RankGroup stage);

  // The observer of the update that begins.
  StepObserver* Next();
  // After an update that ran to its end, in `seconds`. What to say in the log.
  absl::StatusOr<std::string> Done(double seconds);

 private:
  // Whether any rank's program is placed.
  absl::StatusOr<bool> Active();
  // After a measured update.
  absl::StatusOr<std::string> Again();
  // Whether the last updates took much longer or shorter than those after the last placement, on
  // any rank.
  absl::StatusOr<bool> Drifted();

  Program& program_;
  RankGroup group_, stage_;
  std::optional<bool> active_;  // none: not known yet
  bool warm_ = false;  // an update has run
  bool due_ = false;   // the next update is measured
  std::optional<MeasureStep> measure_;
  std::vector<double> seconds_;  // of updates since the last placement
};

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_RUN_WARM_UP_H_
