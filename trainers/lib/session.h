// Session: everything of a training run that is decided before its first update.
//
// Purpose: from a Config to model, data, plan, device and compiled programs. Opening checks and
// plans all of it and takes no memory for the model; Allocate takes it.
// Thread-safety: one thread. Ownership: owns all its parts; the file system must outlive it.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<Session> session, OpenSession(files, config, log));
//   DescribeSession(*session, log);
//   RETURN_IF_ERROR(session->training->Allocate());
//   RETURN_IF_ERROR(SetFirstValues(*session));
#ifndef COLOSSUS_TRAINERS_LIB_SESSION_H_
#define COLOSSUS_TRAINERS_LIB_SESSION_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/file_system.h"
#include "parallel/plan.h"
#include "parallel/training_program.h"
#include "shardformer/config.h"
#include "shardformer/tokenizer/tokenizer.h"
#include "tensor/exec/device.h"
#include "tensor/optim/update.h"
#include "trainers/lib/config.h"
#include "trainers/lib/data.h"
#include "trainers/lib/evaluator.h"
#include "trainers/lib/flops.h"
#include "trainers/lib/log.h"
#include "trainers/lib/model_source.h"
#include "trainers/lib/validate.h"

namespace colossus {

struct Session {
  Config config;  // as given, with batch and sequence length that were derived filled in
  std::unique_ptr<Tokenizer> tokenizer;  // null without text
  bool has_text = false;               // the data is text that `tokenizer` cut
  ModelConfig model;
  std::optional<ModelSource> weights;  // none: random first values
  DataSet data;
  BatchPlan batch = {};
  Plan plan;
  Optimizer optimizer;
  std::unique_ptr<Device> device;
  std::unique_ptr<TrainingProgram> training;
  std::unique_ptr<Evaluator> validation;  // null: no validation rows, or a device without values

  // Planned high water of the arena on the device.
  int64_t device_bytes() const;
};

// The dtype that precision.* calls fp32, bf16 or fp16. REQUIRES: one of them.
DType ParsePrecision(absl::string_view name);

// What plan.recompute names. REQUIRES: one of its choices.
Recomputation ParseRecomputation(absl::string_view name);

// InvalidArgument, NotFound, Unimplemented or ResourceExhausted: to be refused.
absl::StatusOr<std::unique_ptr<Session>> OpenSession(FileSystem& files, const Config& config,
                                                     Log& log);

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

#endif  // COLOSSUS_TRAINERS_LIB_SESSION_H_
