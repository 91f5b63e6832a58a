// EventOrder: one order of all actions and messages of a pipeline.
//
// Purpose: a message is one event of two stages: it ends when both have come to it. If every stage
// runs its actions and its ends of messages in an order that all stages share, none can wait for
// each other in a circle. The order follows the timeline: a message stands right behind the action
// that makes it, and that comes before what its reader's stage does meanwhile, so that it travels
// while that stage computes. All ranks find the same order from the same plan.
// Thread-safety: plain functions. Ownership: plain values.
//
//   for (const PipelineEvent& event : OrderEvents(timeline, messages)) ...
#ifndef COLOSSUS_PARALLEL_PIPELINE_EVENT_ORDER_H_
#define COLOSSUS_PARALLEL_PIPELINE_EVENT_ORDER_H_

#include <vector>

#include "parallel/pipeline/messages.h"
#include "parallel/pipeline/timeline.h"

namespace colossus {

struct PipelineEvent {
  int action = -1;   // its number in PipelineActions, or
  int message = -1;  // its index, for
  int micro_batch = 0;
};

// REQUIRES: the works of `messages` are actions of the timeline, makers before readers.
std::vector<PipelineEvent> OrderEvents(const Timeline& timeline,
                                       const std::vector<Message>& messages);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_EVENT_ORDER_H_
