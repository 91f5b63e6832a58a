// Session: everything of a training run that is decided before its first update, on one rank.
//
// Purpose: from a Config to model, data, plan, device and compiled programs. Opening checks and
// plans all of it and takes no memory for the model; Allocate takes it. Model and data are shared
// with the other ranks of the process.
// Thread-safety: one thread. Ownership: owns all its parts but what is shared, which it keeps
// alive; the communicator of the group must outlive it.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<Session> session, OpenSession(inputs, config, layout, group));
//   DescribeSession(*session, log);
//   RETURN_IF_ERROR(session->training->Allocate());
//   RETURN_IF_ERROR(SetFirstValues(*session));
#ifndef COLOSSUS_TRAINERS_LIB_RUN_SESSION_H_
#define COLOSSUS_TRAINERS_LIB_RUN_SESSION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "parallel/plan.h"
#include "parallel/training_program.h"
#include "parallel/training_step.h"
#include "shardformer/config.h"
#include "tensor/exec/device.h"
#include "tensor/exec/disk/file_disk_tier.h"
#include "tensor/optim/update.h"
#include "trainers/lib/config/config.h"
#include "trainers/lib/config/log.h"
#include "trainers/lib/config/run_layout.h"
#include "trainers/lib/config/validate.h"
#include "trainers/lib/data/data.h"
#include "trainers/lib/data/sampler.h"
#include "trainers/lib/ranks/rank_group.h"
#include "trainers/lib/ranks/run_device.h"
#include "trainers/lib/report/flops.h"
#include "trainers/lib/run/evaluator.h"
#include "trainers/lib/run/run_inputs.h"

namespace colossus {

struct Session {
  Config config;  // as given, with batch and sequence length that were derived filled in
  RankGroup group;
  RunLayout layout;
  std::shared_ptr<const ModelInput> input;  // tokenizer and weights
  std::shared_ptr<const DataSet> data;
  ModelConfig model;
  BatchPlan batch = {};
  Plan plan;  // as this rank's stage sees it
  Optimizer optimizer;
  RankDevice own;
  Device* device = nullptr;  // own.device
  std::string tiers;         // what the programs may use below it, for the log
  TrainingOptions compiled_with;
  FileDiskTierOptions offload;
  std::unique_ptr<TrainingProgram> training;
  std::unique_ptr<Evaluator> validation;  // null: no validation rows, or a device without values

  // Planned high water of the arena on the device.
  int64_t device_bytes() const;
  // The rows of a micro-batch that this rank computes, or another one.
  BatchShare share() const { return share(group.rank()); }
  BatchShare share(int rank) const;
  // The ranks of this one's stage, which run the same step; null: all ranks do. Collective.
  absl::StatusOr<std::unique_ptr<Communicator>> StageRanks() const;
};

// The dtype that precision.* calls fp32, bf16 or fp16. REQUIRES: one of them.
DType ParsePrecision(absl::string_view name);

// Collective over `group`. InvalidArgument, NotFound, Unimplemented or ResourceExhausted: to be
// refused.
absl::StatusOr<std::unique_ptr<Session>> OpenSession(RunInputs& inputs, const Config& config,
                                                     const RunLayout& layout, RankGroup group);

// Compiles the programs of an opened session again, by session.compiled_with, with the first ones
// and all that they held gone. Error: as OpenSession, on this rank.
absl::Status CompileAgain(Session& session);

// Only plan, device and programs of a session, for a model of which only the configuration is
// known. `rank`: of the ranks that the options describe, on the null device. REQUIRES: those of the
// session are one.
absl::Status PlanSession(const Options& options, const ModelConfig& model, int rank,
                         Session* session);

// What the program chose where plan.* says auto, a line for each key.
std::vector<std::string> ChosenByAuto(const Session& session);

// The configuration with what was derived, data, batch arithmetic, parameters, decay, memory and
// flops: to the log.
void DescribeSession(const Session& session, Log& log);

// Parameters from the weights, or random ones. REQUIRES: allocated. InvalidArgument names a tensor
// with a value that is not finite.
absl::Status SetFirstValues(Session& session);

// What utilisation is computed from.
ModelSize SizeOfModel(const ModelConfig& model, const std::vector<StateInfo>& parameters,
                      int64_t sequence_length);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_RUN_SESSION_H_
