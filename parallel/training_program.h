// TrainingProgram: a compiled training step with its host side.
//
// Purpose: runs updates: feeds micro-batches, measures, decides, applies or skips. One sum, one
// divisor: micro-batches yield loss sums and gradient sums, and this is the one place that divides
// by the update's number of counting tokens. A skipped update changes no bit.
// Thread-safety: one thread. Ownership: owns the Program; the device must outlive it.
//
//   ASSIGN_OR_RETURN(auto training, TrainingProgram::Make(config, plan, options, *device));
//   RETURN_IF_ERROR(training->Allocate());
//   for each parameter: RETURN_IF_ERROR(training->SetParameter(name, values));
//   ASSIGN_OR_RETURN(UpdateResult result, training->RunUpdate(input));
#ifndef COLOSSUS_PARALLEL_TRAINING_PROGRAM_H_
#define COLOSSUS_PARALLEL_TRAINING_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parallel/compile.h"
#include "parallel/plan.h"
#include "parallel/state_share.h"
#include "tensor/exec/non_finite.h"
#include "tensor/exec/program.h"
#include "tensor/host_tensor.h"

namespace colossus {

class Communicator;
class MeshCommunicators;

// Which rank of the plan's mesh this is. Default: the only one.
struct RankContext {
  int rank = 0;
  MeshCommunicators* communicators = nullptr;  // of PlanMesh's mesh; must outlive the program
};

// One micro-batch, [micro_batch, sequence_length] each: of the rows of a rank along the axis
// "data", whole rows. positions and segments only if the plan is packed.
struct MicroBatch {
  HostTensor input_ids;  // i32
  HostTensor labels;     // i32; -100 does not count
  HostTensor positions;  // i32
  HostTensor segments;   // i32
  // Index in the global batch of the first row of this micro-batch, all ranks together: row r of
  // the rank at place d along "data" is row first_row + d * micro_batch + r.
  int64_t first_row = 0;
};

// InvalidArgument: an id or a target outside the vocabulary; which, and where it is.
absl::Status CheckIds(const MicroBatch& batch, int64_t vocabulary);

// What a rank is fed with, of whole rows of its place along "data": the positions of its place
// along "sequence", for the feed `name`.
HostTensor FeedOf(absl::string_view name, const HostTensor& rows, const Plan& plan,
                  const MeshPlace& place);

struct UpdateInput {
  // At most plan.micro_batches; missing ones count nothing (the last update of an epoch is short).
  std::vector<MicroBatch> micro_batches;
  double learning_rate = 0;
  double clip_norm = 0;  // 0: no clipping
  int64_t applied = 0;   // updates applied before this one
  int64_t step = 0;      // attempt, part of the randomness
  uint64_t seed = 0;
  double loss_scale = 1;  // a power of two: the backward starts from so many times more
};

struct UpdateResult {
  double loss = 0;            // nats per counting token
  int64_t tokens = 0;         // counting tokens
  double grad_norm = 0;       // of the mean gradient, before clipping
  bool finite = true;         // loss and norm
  std::string skipped;        // why nothing changed; empty: applied
  Fetched gradients;          // if fetched: of seed × sum; multiply by gradient_scale
  double gradient_scale = 0;  // 1 / (seed × tokens); the loss scale is in the seed
};

class TrainingProgram {
 public:
  static absl::StatusOr<std::unique_ptr<TrainingProgram>> Make(const ModelConfig& config,
                                                               const Plan& plan,
                                                               const TrainingOptions& options,
                                                               Device& device,
                                                               const RankContext& context = {});
  // Takes memory; moments start at zero. Parameters have no values yet.
  absl::Status Allocate();

  // Sets a parameter, its master and zero moments from values of any float dtype, in the order of
  // global_dims or disk_dims, which is the same: the whole tensor, of which a rank takes its part.
  // REQUIRES: allocated. Error: NotFound, another number of elements, or a value that is not finite
  // in the parameter's dtype. On a device that does not compute only the first two are checked.
  absl::Status SetParameter(absl::string_view name, const HostTensor& values);

  // REQUIRES: every parameter is set. On several ranks all call it, with micro-batches of the same
  // number, and get the same result. A non-finite loss or norm is skipped with finite = false; an
  // update without counting tokens is skipped. `observer` sees the instructions of all phases;
  // its error ends the update, and before the phase update nothing has changed. InvalidArgument: an
  // id or a target outside the vocabulary. With layer-wise updates InvalidArgument too: clipping or
  // a loss scale; DataLoss: a loss or norm that is not finite, after parameters have changed.
  absl::StatusOr<UpdateResult> RunUpdate(const UpdateInput& input,
                                         StepObserver* observer = nullptr);

  // The first state of this rank with an element that is not finite, as the job knows it: what lies
  // in a chunk has its own name, and type and element are those of the whole tensor. REQUIRES:
  // allocated.
  absl::StatusOr<std::optional<NonFinite>> FindNonFiniteState();

  // For an update that RunUpdate found not finite: the state that was so before, or the first value
  // that is so when the same update is computed again. None: it does not happen again. `go_on`: it
  // is computed to its end whatever is found, as several ranks must who wait for each other; of a
  // state it then says nothing. Instructions are numbered so that, of what the ranks of a job find,
  // the smallest number comes first.
  absl::StatusOr<std::optional<NonFinite>> FindNonFinite(const UpdateInput& input,
                                                         StepObserver* observer = nullptr,
                                                         bool go_on = false);

  // The loss sum of rows with the parameters as they are. REQUIRES: options.validation. On several
  // ranks of all their rows, each giving those of its place along "data". Error: as RunUpdate.
  absl::StatusOr<double> ValidationLoss(const MicroBatch& rows, StepObserver* observer = nullptr);

  Program& program() { return *compiled_.program; }
  const CompiledTraining& compiled() const { return compiled_; }
  const Plan& plan() const { return plan_; }
  const std::vector<StateInfo>& parameters() const { return compiled_.parameters; }
  // Of each key of the plan that was left open, a line: what was chosen and why.
  const std::vector<std::string>& choices() const { return compiled_.choices; }
  // Every state of the program: homes in the plan.
  const std::vector<StateHome>& states() const { return compiled_.program->plan().states; }
  // Every state that this rank's stage holds, parameters and optimizer states: its parts. Where the
  // elements are that it holds of them: HeldRanges (zero/held_ranges.h).
  const std::vector<LocalState>& local_states() const { return compiled_.states; }
  const ZeroLayout& zero() const { return compiled_.zero; }
  // The states of the job, all of them, as files know them; and what this rank holds of them.
  const std::vector<JobState>& job_states() const { return compiled_.job_states; }
  const std::vector<StateShare>& shares() const { return shares_; }
  const MeshPlace& place() const { return compiled_.place; }
  // What this rank is fed with, of whole rows [micro_batch, sequence_length] of its place along
  // "data": the positions of its place along "sequence", for the feed `name`.
  HostTensor FeedOf(absl::string_view name, const HostTensor& rows) const;

 private:
  TrainingProgram(const ModelConfig& config, const Plan& plan, const TrainingOptions& options,
                  CompiledTraining compiled, const RankContext& context);

  const LocalState* FindState(absl::string_view name) const;
  // With layer-wise updates, of `tokens` counting tokens.
  absl::StatusOr<UpdateResult> RunLayerwise(const UpdateInput& input, int64_t tokens,
                                            StepObserver* observer);
  // Of all ranks.
  absl::StatusOr<int64_t> CountTokens(const UpdateInput& input);
  absl::Status Zero(const StateHome& home);
  // Bytes [first, first + bytes) of a state of the program.
  absl::Status Zero(absl::string_view home, int64_t first, int64_t bytes);
  absl::Status WriteZeros(const LocalState& state);
  absl::Status Write(const LocalState& state, const HostTensor& values);
  const HostTensor* Feed(const UpdateInput& input, absl::string_view name, int micro_batch);
  // One stage makes the loss, one the sum of squares: what one has, all get.
  absl::Status SumOverStages(double* values, int64_t count, absl::string_view site) const;
  // Ranks that between them have every stage, and whether this one is to give its stage's part.
  absl::StatusOr<Communicator*> AcrossStages() const;
  bool SpeaksForStage() const;
  // Gradients of other stages, put beside this one's.
  absl::Status ShareGradients(Fetched& gradients) const;
  // An instruction's number such that what comes first in the whole pipeline has a smaller one.
  int64_t InPipeline(int64_t instruction) const;
  // Of whole rows the positions that this rank is fed with.
  MicroBatch OwnPart(const MicroBatch& whole) const;
  void SetScalars(const UpdateInput& input, double grad_scale);
  void Begin(const UpdateInput& input);
  // "whole/gradient/<name>" becomes "gradient/<name>".
  void NameWholeGradients(Fetched& fetched) const;
  double Seed(const UpdateInput& input) const { return loss_seed_ * input.loss_scale; }

  Plan plan_;
  TrainingOptions options_;
  RankContext context_;
  CompiledTraining compiled_;
  std::vector<StateShare> shares_;
  int64_t vocabulary_ = 0;
  double loss_seed_ = 1;
  MicroBatch empty_;             // counts nothing
  std::vector<MicroBatch> own_;  // what this rank is fed with, of the running update
  HostTensors scalars_;          // feeds of the running update by name
  std::vector<HostTensor> first_rows_;
};

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_TRAINING_PROGRAM_H_
