#include "parallel/update_graph.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "parallel/micro_batch_graph.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/optimizer.h"
#include "tensor/ops/pointwise.h"
#include "tensor/ops/sum_squares.h"

namespace colossus {
namespace {

// The parameters in runs of those that the same block reads first. An update node per run, since a
// run is
//  - wide enough that norms and biases cost no instruction and no parallel loop of their own;
//  - a range of each flat buffer of states, which lie in first-use order;
//  - narrow enough to be placed: the states of a block come and go with the segments of the block,
//    and while one block is updated, another's can be on their way.
// Runs change no bit: each element is updated by itself.
std::vector<std::vector<ParameterGradients>> RunsOfBlocks(
    const Graph& forward, const std::vector<ParameterGradients>& parameters) {
  const std::vector<std::vector<NodeId>> uses = forward.Uses();
  std::vector<std::vector<ParameterGradients>> runs;
  std::string last;
  for (const ParameterGradients& parameter : parameters) {
    const State* state = forward.FindState(parameter.state);
    CHECK(state != nullptr && !uses[state->in].empty()) << parameter.state;
    const std::string& block = forward.node(uses[state->in].front()).block;
    if (runs.empty() || block != last || runs.back().size() == kMaxUpdated) runs.emplace_back();
    runs.back().push_back(parameter);
    last = block;
  }
  return runs;
}

}  // namespace

std::string GradientName(absl::string_view parameter) {
  return absl::StrCat("gradient/", parameter);
}

absl::StatusOr<Graph> MeasureGraph(const Graph& micro_batch,
                                   const std::vector<ParameterGradients>& parameters,
                                   DType gradient) {
  GraphBuilder builder("measure");
  builder.SetBlock("measure");
  ValueIds gradients;
  for (const ParameterGradients& parameter : parameters) {
    ValueId sum = kNoValue;
    for (const std::string& name : parameter.outputs) {
      const std::string sum_name = SumName(name);
      ValueId made = micro_batch.FindOutput(sum_name);
      CHECK(made != kNoValue) << sum_name;
      ValueId use = builder.Feed(sum_name, micro_batch.value(made).type);
      sum = sum == kNoValue ? use : Add(builder, sum, use);
    }
    gradients.push_back(Convert(builder, sum, gradient));
    builder.Output(GradientName(parameter.state), gradients.back());
  }
  builder.Output("sum_squares", SumSquares(builder, gradients));
  return std::move(builder).Build();
}

absl::StatusOr<Graph> UpdateGraph(const Graph& measure, const Graph& forward,
                                  const std::vector<ParameterGradients>& parameters,
                                  const Optimizer& optimizer, DType compute) {
  GraphBuilder builder("update");
  builder.SetBlock("update");
  const Type scalar{MasterDType(compute), {}};
  UpdateScalars scalars;
  scalars.learning_rate = builder.Feed("learning_rate", scalar);
  scalars.grad_scale = builder.Feed("grad_scale", scalar);
  if (optimizer.kind == Optimizer::Kind::kAdamw) {
    scalars.correction1 = builder.Feed("correction1", scalar);
    scalars.correction2 = builder.Feed("correction2", scalar);
  }
  for (const std::vector<ParameterGradients>& run : RunsOfBlocks(forward, parameters)) {
    std::vector<UpdatedParameter> updated;
    for (const ParameterGradients& parameter : run) {
      const std::string name = GradientName(parameter.state);
      const ValueId gradient = builder.Feed(name, measure.value(measure.FindOutput(name)).type);
      updated.push_back({forward.FindState(parameter.state)->info, gradient});
    }
    AddUpdate(builder, optimizer, updated, compute, scalars);
  }
  return std::move(builder).Build();
}

}  // namespace colossus
