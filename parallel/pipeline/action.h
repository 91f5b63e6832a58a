// Action: one piece of work of a pipeline; PipelineActions: all of an update, numbered.
//
// Purpose: the vocabulary of schedules. The model is cut into stages x chunks consecutive parts; a
// stage (a group of ranks) holds `chunks` of them, placed in a loop or in a V. For each part and
// micro-batch there is a forward and a backward, which may be split into the gradient of the input
// and that of the weights.
// Thread-safety: plain values. Ownership: none.
//
//   PipelineActions actions({.stages = 4, .chunks = 2, .micro_batches = 8}, PartPlacement::kV,
//                           /*split_backward=*/true);
//   int i = actions.Index({ActionKind::kForward, /*micro_batch=*/0, /*chunk=*/1, /*stage=*/3});
//   actions.SourceOf(i);  // the forward of chunk 0 on the same stage: the V turns there
#ifndef COLOSSUS_PARALLEL_PIPELINE_ACTION_H_
#define COLOSSUS_PARALLEL_PIPELINE_ACTION_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace colossus {

enum class ActionKind {
  kForward,
  kBackward,        // both gradients at once; what is sent on is sent when both are done
  kBackwardInput,   // the gradient of the part's input, which the part before waits for
  kBackwardWeight,  // the gradients of the part's weights, which only the update waits for
};
absl::string_view ToString(ActionKind kind);

struct Action {
  ActionKind kind = ActionKind::kForward;
  int micro_batch = 0;
  int chunk = 0;
  int stage = 0;

  friend bool operator==(const Action&, const Action&) = default;
};
std::string ToString(const Action& action);  // "forward of micro-batch 0 by stage 3, chunk 1"

struct PipelineShape {
  int stages = 1;
  int chunks = 1;  // parts of the model that a stage holds
  int micro_batches = 1;

  int parts() const { return stages * chunks; }
  friend bool operator==(const PipelineShape&, const PipelineShape&) = default;
};
std::string ToString(const PipelineShape& shape);  // "4 stages, 2 chunks and 8 micro-batches"

// Where the parts lie. kLoop: part k is with stage k mod stages. kV: every other chunk goes
// backwards, so that the last part of a chunk and the first of the next are with the same stage.
enum class PartPlacement { kLoop, kV };

// Actions of one kind and chunk of a stage are a lane: they run in micro-batch order under every
// schedule, since gradients are added in that order.
class PipelineActions {
 public:
  PipelineActions(const PipelineShape& shape, PartPlacement placement, bool split_backward);

  const PipelineShape& shape() const { return shape_; }
  PartPlacement placement() const { return placement_; }
  bool split_backward() const { return split_backward_; }

  int PartOf(int stage, int chunk) const;
  int StageOf(int part) const;
  int ChunkOf(int part) const { return part / shape_.stages; }

  // Numbers run by stage, then backwards, forwards, weight gradients, then chunk and micro-batch.
  int size() const { return shape_.stages * per_stage(); }
  int per_stage() const { return lanes_per_stage() * shape_.micro_batches; }
  int Index(const Action& action) const;  // REQUIRES: one of these actions
  Action At(int index) const;

  int StageAt(int index) const { return index / per_stage(); }
  int PartAt(int index) const { return part_of_lane_[LaneAt(index)]; }
  ActionKind KindAt(int index) const { return kind_of_lane_[LaneAt(index)]; }
  int MicroBatchAt(int index) const { return index % shape_.micro_batches; }
  int LaneAt(int index) const { return index / shape_.micro_batches; }
  int lanes_per_stage() const { return kinds() * shape_.chunks; }

  // The action whose result `index` reads: of the part before or, backwards, after it; -1: none.
  int SourceOf(int index) const;

 private:
  int kinds() const { return split_backward_ ? 3 : 2; }

  PipelineShape shape_;
  PartPlacement placement_;
  bool split_backward_;
  std::vector<int> part_of_lane_;
  std::vector<ActionKind> kind_of_lane_;
};

// Per stage, actions by number, the first to run first.
using StageOrders = std::vector<std::vector<int>>;

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_ACTION_H_
