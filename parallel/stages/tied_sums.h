// TiedSums: gradients of parameters that stages of different meshes hold.
//
// Purpose: each use of a tied parameter has a sum of its own. The stage that makes it adds up its
// ranks' summands and gives it whole to every stage that holds the parameter, itself included; so
// all copies are updated with the same bits. It arrives as the receiver's own sums would be: the
// first of the ranks that see other tokens has it, the others have zeros.
// Thread-safety: plain functions. Ownership: plain values.
//
//   for (const TiedSum& tied : FindTiedSums(graph, parameters, uses)) ...
//   RETURN_IF_ERROR(AddTiedSum(tied, made, pipeline, place, "tied.0", calls, step));
#ifndef COLOSSUS_PARALLEL_STAGES_TIED_SUMS_H_
#define COLOSSUS_PARALLEL_STAGES_TIED_SUMS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parallel/rank_graph.h"
#include "parallel/stages/stage_pipeline.h"
#include "parallel/zero/block_calls.h"
#include "tensor/exec/step.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/sharding.h"
#include "tensor/graph/types.h"
#include "tensor/passes/autodiff.h"

namespace colossus {

struct TiedSum {
  std::string gradient;      // an output of the differentiated graph
  Type type;                 // of the sum, global
  int maker = 0;             // stage
  std::vector<int> holders;  // stages, the maker among them
};

// In a fixed order. `graph`: the whole, differentiated.
std::vector<TiedSum> FindTiedSums(const Graph& graph,
                                  const std::vector<ParameterGradients>& parameters,
                                  const StageUses& uses);

// This rank's end of it, as calls once per step. `made`: how the maker's ranks hold it.
absl::Status AddTiedSum(const TiedSum& tied, const Sharding& made, const StagePipeline& pipeline,
                        const MeshPlace& place, absl::string_view name,
                        std::vector<BlockCall>& calls, StepBuilder& step);

// `sums` with the sums that arrive from other stages too, for those who read their types.
absl::StatusOr<Graph> WithArrivingSums(const Graph& sums, const std::vector<TiedSum>& tied,
                                       const StagePipeline& pipeline);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_STAGES_TIED_SUMS_H_
