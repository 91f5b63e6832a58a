// TrainingStep: the calls of a training step, from a differentiated graph of one rank.
//
// Purpose: what compile.cc does with a graph after it has been split over ranks: the variants for
// the micro-batches, cut into blocks; gathers and reductions of chunks around them (zero/), or,
// where ranks share no parameters, none; measure and update. Cutting comes last: every pass before
// it sees the whole graph. Thread-safety: plain functions. Ownership: plain values.
//
//   StepBuilder step({"accumulate", "measure", "update"});
//   RETURN_IF_ERROR(AddTrainingCalls(local, plan, options, device, step));
#ifndef COLOSSUS_PARALLEL_TRAINING_STEP_H_
#define COLOSSUS_PARALLEL_TRAINING_STEP_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parallel/compile_options.h"
#include "parallel/micro_batch_graph.h"
#include "parallel/plan.h"
#include "parallel/rank_graph.h"
#include "parallel/sharding/partition.h"
#include "parallel/stages/stage_pipeline.h"
#include "parallel/stages/tied_sums.h"
#include "parallel/state_share.h"
#include "parallel/zero/block_calls.h"
#include "parallel/zero/layout.h"
#include "tensor/exec/device.h"
#include "tensor/exec/step.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/sharding.h"
#include "tensor/optim/update.h"
#include "tensor/passes/autodiff.h"

namespace colossus {

struct TrainingOptions {
  Optimizer optimizer;
  // Outputs "gradient/<parameter>" come back from measure; on a mesh of several ranks the whole
  // ones, "whole/gradient/<parameter>".
  bool fetch_gradients = false;
  bool validation = false;  // a fourth phase: the loss without gradients and dropout
  PipelineFacts pipeline;   // of several stages
  CompileOptions compile;
};

// Validate may run any number of times, before an update or after it. It reads the parameters where
// they are, and its activations share the memory of the other phases. Its feeds and its fetched
// "loss_sum" are those of micro-batch kValidateMicroBatch, of plan.micro_batch rows.
enum TrainingPhase {
  kAccumulatePhase = 0,
  kMeasurePhase = 1,
  kUpdatePhase = 2,
  kValidatePhase = 3,
};
inline constexpr int kValidateMicroBatch = -1;

// A model differentiated, as this rank computes it.
struct LocalTraining {
  Partitioned local;
  std::vector<ParameterGradients> parameters;
  MeshPlace place;
  ZeroLayout zero;  // no chunks: each parameter is a state of its own
  // Parameters of the job, whoever holds them, in first-use order.
  std::vector<JobState> job;
  // Of several stages. `local` is then still the graph of all, its states those of this one; where
  // stages have meshes of their own it is this stage's alone.
  std::optional<StagePipeline> pipeline;
  StageUses uses;
  // Of stages of different meshes: sums of gradients that are made whole and shared out. `local`
  // says how they arrive, `made_sums` how their makers hold them.
  std::vector<TiedSum> tied;
  std::map<std::string, Sharding> made_sums;

  GradientLayout gradients() const { return {place.mesh, local.outputs}; }
  // Those that this stage holds.
  std::vector<ParameterGradients> own() const;
  // Those of them that no stage before holds.
  std::vector<ParameterGradients> owned() const;
  // Whether this stage makes that gradient, as it is read at the end.
  bool Makes(const std::string& gradient) const {
    if (made_sums.count(gradient) > 0) return false;
    return !pipeline || uses.of_output.at(gradient) == pipeline->stage;
  }
};

// A graph cut into blocks; in a pipeline into pieces of work, of which this stage has its own.
struct Variant : StageVariant {
  std::map<std::string, int> part_of_output;
  std::map<std::string, int> last_part_of_state;  // that reads it
};

// Adds the segments of one variant, and those that gather its chunks. `name`: for dumps.
// `pipeline`: nullptr for one stage; else the messages between segments are found, not added.
// `gathered_once`: what it gathers comes from the gathers of the last micro-batch (VerticalCalls).
absl::StatusOr<Variant> AddVariant(const Graph& graph, const ZeroLayout& zero,
                                   const StagePipeline* pipeline, const std::string& name,
                                   const CompileOptions& options, const Device& device,
                                   StepBuilder& step, bool gathered_once = false);

// The calls of a forward alone on a pipeline, in `phase`: what this stage does of it. Outputs
// are fetched on all stages.
absl::Status AddForwardStages(const Graph& graph, const ZeroLayout& zero,
                              const StagePipeline& pipeline, const std::string& name,
                              const CompileOptions& options, const Device& device, int micro_batch,
                              int phase, StepBuilder& step);

// "sum_squares.<part>": fetched with layer-wise updates, of gradients that are done with a part.
std::string LayerSquaresName(absl::string_view part);

// Adds the calls of the phases accumulate, measure and update; with layer-wise updates all are in
// accumulate. Of the plan micro-batches, precision, the time of updates and the ZeRO stage count.
// `known`: of a pipeline, gets what the calls are.
absl::Status AddTrainingCalls(const LocalTraining& training, const Plan& plan,
                              const TrainingOptions& options, const Device& device,
                              StepBuilder& step, PipelineCalls* known = nullptr);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_TRAINING_STEP_H_
