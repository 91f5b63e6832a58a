// The once-per-update graphs: measure and update.
//
// Purpose: MeasureGraph finishes each gradient (adds the uses of a tied parameter in fixed order,
// then the ranks' summands, rounds once) and computes the sum of squares of all, each element of a
// gradient counted once whatever the ranks hold of it; UpdateGraph applies the optimizer, one node
// for the parameters of a block. The host looks at the measurements in between and updates or
// skips.
// Thread-safety: plain functions.
//
//   measure: feeds the sums of the micro-batches, "sum/..."; outputs "gradient/<parameter>" and
//            "sum_squares" f64[]; on request "whole/gradient/<parameter>", from all ranks' parts
//   update:  feeds "gradient/<parameter>", learning_rate, grad_scale, correction1, correction2, of
//            narrow moments rounding_key
#ifndef COLOSSUS_PARALLEL_UPDATE_GRAPH_H_
#define COLOSSUS_PARALLEL_UPDATE_GRAPH_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "parallel/micro_batch_graph.h"
#include "parallel/sharding/partition.h"
#include "tensor/graph/graph.h"
#include "tensor/optim/update.h"
#include "tensor/passes/autodiff.h"

namespace colossus {

// "gradient/<parameter>": the finished gradient of the update.
std::string GradientName(absl::string_view parameter);

// "whole/gradient/<parameter>".
std::string WholeGradientName(absl::string_view parameter);

struct MeasureOptions {
  DType gradient = DType::kF32;  // dtype of the finished gradients
  GradientLayout layout = {};
  bool whole_gradients = false;  // outputs WholeGradientName too
  // Output; empty: the sum of squares is made elsewhere.
  std::string squares = "sum_squares";
  // Parameters whose gradients another stage of a pipeline gives.
  std::set<std::string> not_owned = {};
};

// `micro_batch`: a variant's graph; gives the types of the sums.
absl::StatusOr<Graph> MeasureGraph(const Graph& micro_batch,
                                   const std::vector<ParameterGradients>& parameters,
                                   const MeasureOptions& options);

// The feeds that an update reads beside gradients.
UpdateScalars FeedUpdateScalars(GraphBuilder& builder, const Optimizer& optimizer, DType compute);

// `measure`: gives the types of the finished gradients. `forward`: gives the parameters' records
// and the blocks that read them first. `parts`: where this rank's parts of parameters begin; those
// that are not there are whole.
absl::StatusOr<Graph> UpdateGraph(const Graph& measure, const Graph& forward,
                                  const std::vector<ParameterGradients>& parameters,
                                  const Optimizer& optimizer, DType compute,
                                  const std::vector<LocalState>& parts = {});

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_UPDATE_GRAPH_H_
