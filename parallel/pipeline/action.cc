#include "parallel/pipeline/action.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace colossus {
namespace {

std::string Count(int n, absl::string_view what) {
  return absl::StrCat(n, " ", what, n == 1 ? "" : what == "micro-batch" ? "es" : "s");
}

}  // namespace

absl::string_view ToString(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return "forward";
    case ActionKind::kBackward:
      return "backward";
    case ActionKind::kBackwardInput:
      return "backward-input";
    case ActionKind::kBackwardWeight:
      return "backward-weight";
  }
  return "?";
}

std::string ToString(const Action& action) {
  return absl::StrCat(ToString(action.kind), " of micro-batch ", action.micro_batch, " by stage ",
                      action.stage, ", chunk ", action.chunk);
}

std::string ToString(const PipelineShape& shape) {
  return absl::StrCat(Count(shape.stages, "stage"), ", ", Count(shape.chunks, "chunk"), " and ",
                      Count(shape.micro_batches, "micro-batch"));
}

PipelineActions::PipelineActions(const PipelineShape& shape, PartPlacement placement,
                                 bool split_backward)
    : shape_(shape), placement_(placement), split_backward_(split_backward) {
  CHECK(shape.stages > 0 && shape.chunks > 0 && shape.micro_batches > 0);
  constexpr ActionKind kWhole[] = {ActionKind::kBackward, ActionKind::kForward};
  constexpr ActionKind kSplit[] = {ActionKind::kBackwardInput, ActionKind::kForward,
                                   ActionKind::kBackwardWeight};
  for (int stage = 0; stage < shape.stages; ++stage) {
    for (int kind = 0; kind < kinds(); ++kind) {
      for (int chunk = 0; chunk < shape.chunks; ++chunk) {
        part_of_lane_.push_back(PartOf(stage, chunk));
        kind_of_lane_.push_back(split_backward ? kSplit[kind] : kWhole[kind]);
      }
    }
  }
}

int PipelineActions::PartOf(int stage, int chunk) const {
  bool backwards = placement_ == PartPlacement::kV && chunk % 2 == 1;
  return chunk * shape_.stages + (backwards ? shape_.stages - 1 - stage : stage);
}

int PipelineActions::StageOf(int part) const {
  int within = part % shape_.stages;
  bool backwards = placement_ == PartPlacement::kV && ChunkOf(part) % 2 == 1;
  return backwards ? shape_.stages - 1 - within : within;
}

int PipelineActions::Index(const Action& action) const {
  int kind = 0;
  switch (action.kind) {
    case ActionKind::kBackward:
      CHECK(!split_backward_);
      break;
    case ActionKind::kBackwardInput:
      CHECK(split_backward_);
      break;
    case ActionKind::kForward:
      kind = 1;
      break;
    case ActionKind::kBackwardWeight:
      CHECK(split_backward_);
      kind = 2;
      break;
  }
  int lane = (action.stage * kinds() + kind) * shape_.chunks + action.chunk;
  return lane * shape_.micro_batches + action.micro_batch;
}

Action PipelineActions::At(int index) const {
  CHECK(index >= 0 && index < size());
  return {KindAt(index), MicroBatchAt(index), LaneAt(index) % shape_.chunks, StageAt(index)};
}

int PipelineActions::SourceOf(int index) const {
  Action source = At(index);
  int part = PartAt(index);
  switch (source.kind) {
    case ActionKind::kBackwardWeight:
      source.kind = ActionKind::kBackwardInput;
      break;
    case ActionKind::kForward:
      if (part == 0) return -1;
      source.stage = StageOf(part - 1);
      source.chunk = ChunkOf(part - 1);
      break;
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
      if (part == shape_.parts() - 1) {
        source.kind = ActionKind::kForward;
      } else {
        source.stage = StageOf(part + 1);
        source.chunk = ChunkOf(part + 1);
      }
      break;
  }
  return Index(source);
}

}  // namespace colossus
