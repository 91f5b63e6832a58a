// Variants of a differentiated graph for the micro-batches of an update.
//
// Purpose: gradients of micro-batches are added in micro-batch order, in fp32 (f64 for f64). Each
// gradient output "g" of the differentiated graph becomes an output "sum/g" that is, in the
//   only   variant: rounded at once to the finished gradient's dtype, if the parameter is read
//          once and no other rank has a part of the sum: then no fp32 copy exists
//   first  variant: itself
//   rest   variant: itself plus the feed "previous/g", the sum of the micro-batches before
//   last   variant: the same, and rounded as in the only variant: what waits for the update is
//          narrow
// The addition stands right behind the gradient, so that the gradient dies there.
// Thread-safety: plain functions.
//
//   ASSIGN_OR_RETURN(Graph rest, MicroBatchGraph(d.graph, d.parameters, MicroBatchVariant::kRest,
//                                                DType::kBF16));
#ifndef COLOSSUS_PARALLEL_MICRO_BATCH_GRAPH_H_
#define COLOSSUS_PARALLEL_MICRO_BATCH_GRAPH_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "collectives/mesh.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/sharding.h"
#include "tensor/passes/autodiff.h"

namespace colossus {

// How gradient outputs lie on a mesh: those that are not listed are whole on every rank. Of those
// with partial axes every rank has a summand.
struct GradientLayout {
  Mesh mesh;
  std::map<std::string, Sharding> outputs;

  Sharding Of(const std::string& output, int dims) const;
};

enum class MicroBatchVariant { kOnly, kFirst, kRest, kLast };

// Name of the output that holds the sum so far, this micro-batch included.
std::string SumName(absl::string_view gradient_output);
// Name of the feed that holds the sum of the earlier micro-batches.
std::string PreviousName(absl::string_view gradient_output);

// `graph`: of this rank, differentiated, with the outputs that `parameters` name, or those of them
// that its stage makes. `gradient`: dtype of finished gradients; the other variants leave gradients
// as they are.
absl::StatusOr<Graph> MicroBatchGraph(const Graph& graph,
                                      const std::vector<ParameterGradients>& parameters,
                                      MicroBatchVariant variant, DType gradient,
                                      const GradientLayout& layout = {});

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_MICRO_BATCH_GRAPH_H_
