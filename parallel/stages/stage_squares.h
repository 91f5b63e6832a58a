// StageSquares: the sum of squares of all gradients of a pipeline, with the bits of one stage.
//
// Purpose: one stage adds up the gradients of the whole model in its order. So do several: each
// part goes on from the totals of the part before, and the last one has the sum. Gradients that are
// split over the same axes of a stage's mesh have a total of their own (square_sums.h).
// Thread-safety: plain functions. Ownership: plain values.
//
//   StageSquares squares = StageSquares::Of(measured);
//   RETURN_IF_ERROR(AddStageSquares(squares, mesh, pipeline, phase, step));
#ifndef COLOSSUS_PARALLEL_STAGES_STAGE_SQUARES_H_
#define COLOSSUS_PARALLEL_STAGES_STAGE_SQUARES_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/mesh.h"
#include "parallel/stages/stage_pipeline.h"
#include "tensor/exec/step.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/sharding.h"
#include "tensor/graph/types.h"

namespace colossus {

// A finished gradient, or a rank's shard of a chunk's; of any stage.
struct PartGradient {
  int part = 0;      // that owns it
  std::string name;  // a value of the step, where the part's stage is this rank's
  Type type;
  AxisNames axes;  // that split it, in the mesh's order
};

struct StageSquares {
  std::vector<PartGradient> gradients;         // in the model's order
  std::vector<AxisNames> groups;               // by their first gradient
  std::vector<int> parts;                      // that own something, ascending
  std::map<int, std::vector<AxisNames>> sums;  // per part: groups that have a total after it

  static StageSquares Of(std::vector<PartGradient> gradients);
};

// Feeds the part's gradients and the totals of the part before; outputs its totals, or
// "sum_squares" f64[] where it is the last. `which`: in StageSquares::parts.
absl::StatusOr<Graph> PartSquaresGraph(const StageSquares& squares, size_t which, const Mesh& mesh);

// This stage's calls, once per step; the last part's gives the host "sum_squares".
absl::Status AddStageSquares(const StageSquares& squares, const Mesh& mesh,
                             const StagePipeline& pipeline, int phase, StepBuilder& step);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_STAGES_STAGE_SQUARES_H_
