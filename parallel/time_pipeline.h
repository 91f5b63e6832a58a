// TimePipeline: how long the work and the messages of a pipeline take, measured in a trial.
//
// Purpose: what the schedule `searched` goes by. A program for training that is compiled by
// predicted times, whose order splits backwards as every searched one does, runs two updates of
// made-up rows with made-up parameters; the second is measured instruction by instruction. Then all
// ranks agree: of a part the slowest rank's times, of a message those of the end that did not wait.
// A step's collectives within its work count; gathers and reductions of ZeRO, and copies between
// tiers, run beside it and do not. The program is of no use afterwards: its states are the trial's.
// Thread-safety: plain functions, called by all ranks of the job. Ownership: plain values.
//
//   RETURN_IF_ERROR(PrepareTrial(*trial));
//   ASSIGN_OR_RETURN(PipelineCosts costs, TimePipeline(*trial, vocabulary, world));
//   trial.reset();
//   options.pipeline.measured = costs;   // and compile again
#ifndef COLOSSUS_PARALLEL_TIME_PIPELINE_H_
#define COLOSSUS_PARALLEL_TIME_PIPELINE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "parallel/pipeline/action.h"
#include "parallel/pipeline/costs.h"
#include "parallel/stages/stage_pipeline.h"
#include "parallel/training_program.h"
#include "tensor/exec/program.h"

namespace colossus {

// Seconds of one update on one rank. Negative: not here.
struct PipelineTimes {
  PipelineTimes(int parts, int messages, int micro_batches);

  double& Work(int part, ActionKind kind, int micro_batch);
  double& Message(int message, int micro_batch);

  int parts, messages, micro_batches;
  std::vector<double> work;     // by part, kind and micro-batch
  std::vector<double> message;  // by message and micro-batch
};

// Takes the times of a program's instructions, of which streams are drained after each.
class MeasurePipeline final : public StepObserver {
 public:
  // `world`: gets a sign of life after each instruction; may be null. REQUIRES: a program of
  // several stages. All must outlive it.
  MeasurePipeline(Program& program, const StagePipeline& pipeline, const PipelineCalls& calls,
                  Communicator* world);

  void Before(size_t instruction) override;
  absl::Status After(size_t instruction) override;
  const PipelineTimes& times() const { return times_; }

 private:
  Program& program_;
  const PipelineCalls& calls_;
  Communicator* const world_;
  PipelineTimes times_;
  double start_ = 0;
};

// The same costs on all ranks; activations are 0. Of the micro-batches of a work or message the
// median counts, of messages the one that takes longest. Collective.
absl::StatusOr<PipelineCosts> AgreeOnCosts(const PipelineTimes& times, Communicator& world);

// Takes memory and sets first values. Error: as TrainingProgram::Allocate and SetParameter.
absl::Status PrepareTrial(TrainingProgram& trial);

// REQUIRES: prepared, of several stages, on a device that computes. Collective. Error: as
// TrainingProgram::RunUpdate.
absl::StatusOr<PipelineCosts> TimePipeline(TrainingProgram& trial, int64_t vocabulary,
                                           Communicator& world);

// What an update of `order` takes by `costs`. Error: as RunRules.
absl::StatusOr<double> SecondsOf(const Timeline& order, const PipelineCosts& costs);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_TIME_PIPELINE_H_
