#include "parallel/pipeline/costs.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace colossus {

PipelineCosts UniformCosts(const PipelineShape& shape, const StageCosts& stage) {
  PartCosts part;
  part.forward = stage.forward / shape.chunks;
  part.backward_input = stage.backward_input / shape.chunks;
  part.backward_weight = stage.backward_weight / shape.chunks;
  part.activation = 1.0 / shape.chunks;
  part.weight_activation = stage.weight_activation / shape.chunks;
  return {std::vector<PartCosts>(shape.parts(), part), stage.communication};
}

absl::Status CheckCosts(const PipelineShape& shape, const PipelineCosts& costs) {
  if (static_cast<int>(costs.parts.size()) != shape.parts()) {
    return absl::InvalidArgumentError(absl::StrCat("pipeline: costs of ", costs.parts.size(),
                                                   " parts, but there are ", shape.parts()));
  }
  auto usable = [](double x) { return std::isfinite(x) && x >= 0; };
  bool good = usable(costs.communication);
  for (const PartCosts& part : costs.parts) {
    good = good && usable(part.forward) && usable(part.backward_input) &&
           usable(part.backward_weight) && usable(part.activation) &&
           usable(part.weight_activation) && part.weight_activation <= part.activation;
  }
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "pipeline: times and activations must be finite and at least 0, and the activation of "
      "backward-weight at most that of the part");
}

double DurationOf(const PipelineActions& actions, const PipelineCosts& costs, int action) {
  const PartCosts& part = costs.parts[actions.PartAt(action)];
  switch (actions.KindAt(action)) {
    case ActionKind::kForward:
      return part.forward;
    case ActionKind::kBackward:
      return part.backward_input + part.backward_weight;
    case ActionKind::kBackwardInput:
      return part.backward_input;
    case ActionKind::kBackwardWeight:
      return part.backward_weight;
  }
  return 0;
}

double DelayOf(const PipelineActions& actions, const PipelineCosts& costs, int source, int action) {
  return actions.StageAt(source) == actions.StageAt(action) ? 0 : costs.communication;
}

double KeptAtStart(const PipelineActions& actions, const PipelineCosts& costs, int action) {
  bool forward = actions.KindAt(action) == ActionKind::kForward;
  return forward ? costs.parts[actions.PartAt(action)].activation : 0;
}

double FreedAtEnd(const PipelineActions& actions, const PipelineCosts& costs, int action) {
  const PartCosts& part = costs.parts[actions.PartAt(action)];
  switch (actions.KindAt(action)) {
    case ActionKind::kForward:
      return 0;
    case ActionKind::kBackward:
      return part.activation;
    case ActionKind::kBackwardInput:
      return part.activation - part.weight_activation;
    case ActionKind::kBackwardWeight:
      return part.weight_activation;
  }
  return 0;
}

double PeakActivation(const PipelineActions& actions, const PipelineCosts& costs,
                      const std::vector<int>& order) {
  double kept = 0, peak = 0;
  for (int action : order) {
    kept += KeptAtStart(actions, costs, action);
    peak = std::max(peak, kept);
    kept -= FreedAtEnd(actions, costs, action);
  }
  return peak;
}

}  // namespace colossus
