#include "parallel/pipeline/search/lower_bound.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace colossus {
namespace {

// Time from the end of the backward-input of `from` to that of `to`, a part before it.
double BackwardWay(const PipelineActions& actions, const PipelineCosts& costs, int from, int to) {
  double way = 0;
  for (int part = from - 1; part >= to; --part) {
    way += costs.parts[part].backward_input;
    if (actions.StageOf(part) != actions.StageOf(part + 1)) way += costs.communication;
  }
  return way;
}

double ForwardWay(const PipelineActions& actions, const PipelineCosts& costs) {
  double way = costs.parts[0].forward;
  for (int part = 1; part < actions.shape().parts(); ++part) {
    way += costs.parts[part].forward;
    if (actions.StageOf(part) != actions.StageOf(part - 1)) way += costs.communication;
  }
  return way;
}

}  // namespace

int EarlyWeights(const PartCosts& part, int micro_batches, double limit) {
  // Then all forwards are done: the last micro-batch is kept whole, the others until their weight
  // gradients.
  if (part.weight_activation <= 0 || limit == kNoMemoryLimit) return 0;
  double waiting = (limit * (1 + kActivationSlack) - part.activation) / part.weight_activation;
  if (waiting >= micro_batches) return 0;
  return std::max(0, micro_batches - 1 - static_cast<int>(std::floor(waiting + 1e-6)));
}

double LengthBound(const PipelineActions& actions, const PipelineCosts& costs, double limit,
                   Objective objective) {
  const PipelineShape& shape = actions.shape();
  int m = shape.micro_batches, last = shape.parts() - 1;
  std::vector<double> start(shape.stages, 0), work(shape.stages, 0);
  for (int stage = 1; stage < shape.stages; ++stage) {
    start[stage] = start[stage - 1] + costs.parts[stage - 1].forward + costs.communication;
  }
  for (int part = 0; part <= last; ++part) {
    const PartCosts& c = costs.parts[part];
    work[actions.StageOf(part)] += m * (c.forward + c.backward_input + c.backward_weight);
  }
  auto counted = [&](int stage, double end) {
    return objective == Objective::kSpan ? end - start[stage] : end;
  };
  double bound = 0;
  double turn =
      (m - 1) * costs.parts[0].forward + ForwardWay(actions, costs) +
      costs.parts[last].backward_input;  // end of the last backward-input of the last part
  for (int part = 0; part <= last; ++part) {
    int stage = actions.StageOf(part);
    bound = std::max(bound, counted(stage, start[stage] + work[stage]));
    double weight = costs.parts[part].backward_weight;
    bound =
        std::max(bound, counted(stage, turn + BackwardWay(actions, costs, last, part) + weight));
    if (shape.chunks > 1) continue;
    for (int below = part; below <= last; ++below) {
      const PartCosts& c = costs.parts[below];
      double end = start[below] + m * (c.forward + c.backward_input) +
                   EarlyWeights(c, m, limit) * c.backward_weight;
      bound =
          std::max(bound, counted(stage, end + BackwardWay(actions, costs, below, part) + weight));
    }
  }
  return bound;
}

}  // namespace colossus
