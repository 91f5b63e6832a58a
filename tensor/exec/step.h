// Step: all segments of one update, for all micro-batches, in one order.
//
// Purpose: what is planned and run as a whole. A call runs a segment for one micro-batch (or once
// per step) in a phase; the host looks at fetched outputs only between phases. StepBuilder
// resolves where each feed comes from, and orders calls by the list scheduler
// (list_scheduler.h): dependences, "must run before" rules, then the order in which calls were
// added. That order is the order of each
// stream: calls of link segments run on a stream of their own, where what they wait for permits.
// Thread-safety: plain values once built. Ownership: owns its segments.
//
//   StepBuilder b({"accumulate", "update"});
//   int forward = b.AddSegment(segment);
//   for (int m = 0; m < micro_batches; ++m) b.AddCall(forward, m, 0);
//   ASSIGN_OR_RETURN(Step step, std::move(b).Build());
#ifndef COLOSSUS_TENSOR_EXEC_STEP_H_
#define COLOSSUS_TENSOR_EXEC_STEP_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/exec/segment.h"
#include "tensor/graph/graph.h"

namespace colossus {

// Where a feed of a segment comes from when it is not a value of the same micro-batch with the
// feed's own name. kPrevious of micro-batch 0 is what a once-per-step call makes.
struct Carry {
  enum class From { kSame, kPrevious, kLast };  // micro-batch of the source
  std::string feed;
  std::string output;
  From from = From::kSame;
};

struct StepSegment {
  Segment segment;
  std::vector<Carry> carries;
  std::vector<std::string> fetched;  // outputs that the host gets, of each call
  // Runs on the link stream, beside the calls around it: communication and what belongs to it.
  bool link = false;
  // What its kernels read and write may be on the host and be computed there (placement.h): work
  // that waits for memory, once per update, on values that nothing else of the step reads again.
  bool may_run_on_host = false;
};

// A value given by a call, or by the host.
struct FeedSource {
  int call = -1;              // index in Step::calls; -1: the host gives it
  ValueId value = kNoValue;   // in the graph of that call's segment
};

struct Call {
  int segment = 0;
  int micro_batch = -1;             // -1: once per step
  int phase = 0;
  std::vector<FeedSource> sources;  // per feed of the segment's graph, in its order
  // Calls of link segments, before this one, that must have finished when it starts. (What a call
  // reads has always finished.)
  std::vector<int> finished;
};

struct Step {
  std::vector<std::string> phases;
  // Per phase: it only runs right after the one before it, so that copies for it may start there.
  std::vector<bool> follows;
  std::vector<StepSegment> segments;
  std::vector<Call> calls;  // in running order; phases never decrease

  const Graph& graph_of(const Call& call) const { return *segments[call.segment].segment.graph; }
};

class StepBuilder {
 public:
  explicit StepBuilder(std::vector<std::string> phases) {
    step_.phases = std::move(phases);
    step_.follows.assign(step_.phases.size(), false);
  }

  // REQUIRES: not the first phase.
  void PhaseFollows(int phase) { step_.follows[static_cast<size_t>(phase)] = true; }

  // Returns the segment's index.
  int AddSegment(StepSegment segment);
  // Returns the call's index for MustRunBefore.
  int AddCall(int segment, int micro_batch, int phase);
  // A schedule's rule on top of what data dictates.
  void MustRunBefore(int call, int later_call) { rules_.emplace_back(call, later_call); }

  // A link call that must also have finished: from then on its memory is free for others.
  void MustFinishBefore(int link_call, int later_call) {
    MustRunBefore(link_call, later_call);
    step_.calls[later_call].finished.push_back(link_call);
  }

  // A feed without a carry is bound to the output of that name of a call of the same micro-batch
  // (or, once-per-step calls: of micro-batch -1), else it is the host's. Calls that read or update
  // the same state keep the order in which they were added.
  // Error: InvalidArgument for a carry without a source or of another type, two sources for one
  // value, a fetched name that is no output, calls that wait for each other in a circle, or a call
  // that must run before one of an earlier phase.
  absl::StatusOr<Step> Build() &&;

 private:
  absl::Status CheckNames() const;
  absl::Status Bind();
  absl::Status Schedule();
  void Reorder(const std::vector<int>& order);

  Step step_;
  std::vector<std::pair<int, int>> rules_;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_STEP_H_
