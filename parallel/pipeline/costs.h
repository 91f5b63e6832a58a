// PipelineCosts: what the actions of each part of a pipeline take.
//
// Purpose: durations (in any unit, the same everywhere) and kept activations, measured or declared.
// Thread-safety: plain values. Ownership: none.
//
//   PipelineCosts costs = UniformCosts(shape, {.forward = 18.5, .backward_input = 18.1,
//                                              .backward_weight = 9.3, .communication = 0.6});
#ifndef COLOSSUS_PARALLEL_PIPELINE_COSTS_H_
#define COLOSSUS_PARALLEL_PIPELINE_COSTS_H_

#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "parallel/pipeline/action.h"

namespace colossus {

constexpr double kNoMemoryLimit = std::numeric_limits<double>::infinity();

// Of one micro-batch.
struct PartCosts {
  double forward = 0;
  double backward_input = 0;  // a whole backward takes both
  double backward_weight = 0;
  double activation = 0;         // kept from the start of the forward
  double weight_activation = 0;  // what of it is kept from the end of backward-input to that of
                                 // backward-weight
};

struct PipelineCosts {
  std::vector<PartCosts> parts;  // in the order of the model
  double communication = 0;      // from the end of an action to the start of another stage's that
                                 // reads it; takes no time of the sender
};

// Of one micro-batch through all chunks of a stage.
struct StageCosts {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
  double communication = 0;      // per message
  double weight_activation = 1;  // share of an activation that backward-weight still needs
};

// Every part the same; an activation is 1 / chunks, so that 1 is one micro-batch through one stage.
PipelineCosts UniformCosts(const PipelineShape& shape, const StageCosts& stage);

// InvalidArgument unless there are as many parts as the shape has, and all is finite and >= 0.
absl::Status CheckCosts(const PipelineShape& shape, const PipelineCosts& costs);

double DurationOf(const PipelineActions& actions, const PipelineCosts& costs, int action);
// From the end of `source` to the start of an action that reads it.
double DelayOf(const PipelineActions& actions, const PipelineCosts& costs, int source, int action);

// What is kept in addition once the action has started, and what less when it has ended.
double KeptAtStart(const PipelineActions& actions, const PipelineCosts& costs, int action);
double FreedAtEnd(const PipelineActions& actions, const PipelineCosts& costs, int action);

// The most that is kept at once if a stage runs `order`.
double PeakActivation(const PipelineActions& actions, const PipelineCosts& costs,
                      const std::vector<int>& order);

// Sums of activations are equal if they differ by less than this share.
constexpr double kActivationSlack = 1e-9;

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_COSTS_H_
