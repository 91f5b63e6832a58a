// Compact: a given order made denser, by running early what fits where a stage would wait.
//
// Purpose: how orders are found for given memory. Each stage keeps to a base order but, whenever
// the next action cannot run yet, takes one from further down that can, if running it early leaves
// enough memory for everything it overtakes. So a base that runs within the limits gives an order
// that does, and never one in which stages wait for each other.
// Thread-safety: functions of their arguments. Ownership: none.
//
//   StageOrders dense = Compact(scheduler, actions, costs, base, /*limit=*/8, {});
#ifndef COLOSSUS_PARALLEL_PIPELINE_COMPACT_H_
#define COLOSSUS_PARALLEL_PIPELINE_COMPACT_H_

#include "parallel/pipeline/action.h"
#include "parallel/pipeline/costs.h"
#include "tensor/exec/list_scheduler.h"

namespace colossus {

struct CompactOptions {
  // When weight gradients run.
  enum class Weights {
    kInOrder,        // where the base order has them
    kAfterForwards,  // once the stage has no forward of its chunk 0 left: when nothing else can
    kLast,           // always when nothing else can
  };
  // Whether a stage waits for an action that would be held up by a shorter one's taking its place.
  enum class Wait { kNever, kWithinAllowance, kAlways };

  Weights weights = Weights::kLast;
  Wait before_weights = Wait::kNever;   // for a forward or backward, instead of a weight gradient
  Wait before_forwards = Wait::kNever;  // for a backward, instead of a forward
  double idle_allowance = 0;            // of each stage, between its first and last action
};

// `scheduler` is SchedulerOf(actions, costs); `limit` is of the activations of each stage.
// REQUIRES: split backwards; `base` has every action once, lanes in order, within the limit.
// The result lacks actions if stages wait for each other in the base.
StageOrders Compact(const ListScheduler& scheduler, const PipelineActions& actions,
                    const PipelineCosts& costs, const StageOrders& base, double limit,
                    const CompactOptions& options);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_COMPACT_H_
