// A trained model, wherever it lies: a Hugging Face directory or a checkpoint of a run.
//
// Thread-safe for const methods. Owns its mappings; the file system must outlive it.
//
//   ASSIGN_OR_RETURN(ModelSource model,
//                    ModelSource::Open(files, path, /*require_tied=*/false, log));
//   for (const StateInfo& info : model.parameters()) {
//     ASSIGN_OR_RETURN(HostTensor values, model.Read(info, DType::kF32));
//   }
#ifndef COLOSSUS_TRAINERS_LIB_CHECKPOINT_MODEL_SOURCE_H_
#define COLOSSUS_TRAINERS_LIB_CHECKPOINT_MODEL_SOURCE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/file_system.h"
#include "shardformer/config.h"
#include "shardformer/model_directory.h"
#include "tensor/graph/state.h"
#include "tensor/host_tensor.h"
#include "trainers/lib/checkpoint/checkpoint.h"
#include "trainers/lib/config/log.h"

namespace colossus {

class ModelSource {
 public:
  // `path`: a directory with config.json and safetensors, the folder of a checkpoint (step-N), or
  // the --out folder of a run, whose newest complete checkpoint is taken. Notes go to `log`.
  // `require_tied`: model.require_tied.
  static absl::StatusOr<ModelSource> Open(FileSystem& files, const std::string& path,
                                          bool require_tied, Log& log);

  // What was opened: "checkpoint out/checkpoints/step-20".
  const std::string& what() const { return what_; }
  const ModelConfig& config() const { return config_; }
  const std::vector<StateInfo>& parameters() const { return parameters_; }
  // The checkpoint; null for a directory.
  const Checkpoint* checkpoint() const { return checkpoint_ ? &*checkpoint_ : nullptr; }

  // Values in global_dims, converted to `dtype`: of a checkpoint, the fp32 master where there is
  // one. InvalidArgument names a parameter with a value that is not finite.
  absl::StatusOr<HostTensor> Read(const StateInfo& parameter, DType dtype) const;

 private:
  ModelSource() = default;
  static absl::StatusOr<ModelSource> FromCheckpoint(Checkpoint checkpoint);
  absl::StatusOr<HostTensor> ReadStored(const StateInfo& parameter, DType dtype) const;

  std::string what_;
  ModelConfig config_;
  std::vector<StateInfo> parameters_;
  std::optional<ModelDirectory> directory_;  // exactly one of the two
  std::optional<Checkpoint> checkpoint_;
};

// The model of a checkpoint's record. `name` opens messages.
absl::StatusOr<ModelConfig> ParseModelConfig(const std::string& text, const std::string& name);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CHECKPOINT_MODEL_SOURCE_H_
