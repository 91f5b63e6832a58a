// Interleaved 1F1B: several chunks a stage, in groups of as many micro-batches as stages.
//
// Forwards run a group through chunk 0, through chunk 1, ..., then the next group; backwards the
// same from the last chunk down. Bubble (p - 1)(F + B + W) / chunks without communication; messages
// x chunks. The first stage keeps p (1 + (p - 1) / (p chunks)) micro-batches.
#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "parallel/pipeline/schedules.h"

namespace colossus {
namespace {

absl::Status CheckShape(const PipelineShape& shape) {
  if (shape.chunks < 2) {
    return absl::InvalidArgumentError(
        "schedule interleaved has at least 2 chunks a stage, not 1: use chunks=2, or 1f1b");
  }
  int rest = shape.micro_batches % shape.stages;
  if (rest == 0) return absl::OkStatus();
  int above = shape.micro_batches - rest + shape.stages, below = above - shape.stages;
  return absl::InvalidArgumentError(
      absl::StrCat("schedule interleaved runs micro-batches in groups of the ", shape.stages,
                   " stages, which do not divide ", shape.micro_batches,
                   ": use micro_batches=", below > 0 ? absl::StrCat(below, " or ") : "", above));
}

// Place of (chunk, micro-batch) in the order of groups; `chunk` counts in running order.
int64_t Place(const PipelineShape& shape, int chunk, int micro_batch) {
  int64_t group = micro_batch / shape.stages, within = micro_batch % shape.stages;
  return (group * shape.chunks + chunk) * shape.stages + within;
}

}  // namespace

absl::StatusOr<Rules> InterleavedRules(const ScheduleInput& input) {
  const PipelineShape& shape = input.shape;
  RETURN_IF_ERROR(CheckShape(shape));
  auto warm_up = [shape](int stage) {  // forwards before the first pair of forward and backward
    return 2 * (shape.stages - stage - 1) + (shape.chunks - 1) * shape.stages;
  };
  Rules rules;
  rules.must_run_before = ByKey([shape, warm_up](const Action& a) -> int64_t {
    if (a.kind == ActionKind::kForward) {
      return 2 * (Place(shape, a.chunk, a.micro_batch) - warm_up(a.stage));
    }
    return 2 * Place(shape, shape.chunks - 1 - a.chunk, a.micro_batch) + 1;
  });
  for (int stage = 0; stage < shape.stages; ++stage) {
    int kept = std::min(warm_up(stage) + 1, shape.micro_batches * shape.chunks);
    rules.memory_bound.push_back(static_cast<double>(kept) / shape.chunks);
  }
  return rules;
}

}  // namespace colossus
