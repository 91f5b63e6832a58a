#include "parallel/update_graph.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "parallel/micro_batch_graph.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/convert.h"
#include "tensor/ops/pointwise.h"
#include "tensor/ops/sum_squares.h"

namespace colossus {

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
  for (const ParameterGradients& parameter : parameters) {
    std::string name = GradientName(parameter.state);
    const State* state = forward.FindState(parameter.state);
    CHECK(state != nullptr) << parameter.state;
    ValueId gradient = builder.Feed(name, measure.value(measure.FindOutput(name)).type);
    AddUpdate(builder, optimizer, state->info, compute, gradient, scalars);
  }
  return std::move(builder).Build();
}

}  // namespace colossus
