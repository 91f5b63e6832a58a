#include "trainers/lib/checkpoint/model_source.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "shardformer/model.h"
#include "tensor/exec/non_finite.h"
#include "tensor/io/json.h"
#include "tensor/optim/update.h"

namespace colossus {
namespace {

// The saved state that holds the parameter most exactly.
const SavedState* BestState(const Checkpoint& checkpoint, const std::string& parameter) {
  const SavedState* master = checkpoint.Find(StateName(Role::kMaster, parameter));
  return master != nullptr ? master : checkpoint.Find(parameter);
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(const std::string& text, const std::string& name) {
  ASSIGN_OR_RETURN(nlohmann::json json, ParseJson(text, name));
  return ReadModelConfig(json, name);
}

absl::StatusOr<ModelSource> ModelSource::Open(FileSystem& files, const std::string& path,
                                              bool require_tied, Log& log) {
  if (!files.Exists(path)) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file or folder"));
  }
  if (IsCheckpoint(files, path)) {
    ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(files, path));
    return FromCheckpoint(std::move(checkpoint));
  }
  if (!files.Exists(JoinPath(path, "config.json")) && files.Exists(CheckpointFolder(path))) {
    ASSIGN_OR_RETURN(std::optional<Checkpoint> newest,
                     FindNewest(files, CheckpointFolder(path), log));
    if (newest) return FromCheckpoint(*std::move(newest));
    return absl::NotFoundError(
        absl::StrCat(CheckpointFolder(path), ": holds no complete checkpoint"));
  }
  if (files.IsDirectory(CheckpointFolder(path))) {
    log.Warning(absl::StrCat(path, " holds a model and the checkpoints of a run; the model is ",
                             "taken, not a checkpoint: --model=", CheckpointFolder(path),
                             "/step-N would be one"));
  }
  ModelSource source;
  ModelDirectoryOptions options;
  options.require_tied = require_tied;
  ASSIGN_OR_RETURN(source.directory_, ModelDirectory::Open(files, path, options));
  source.what_ = absl::StrCat("directory ", path);
  source.config_ = source.directory_->config();
  source.parameters_ = source.directory_->parameters();
  for (const std::string& note : source.config_.notes) log.Info(absl::StrCat("model: ", note));
  for (const std::string& note : source.directory_->notes()) {
    log.Info(absl::StrCat("model: ", note));
  }
  return source;
}

absl::StatusOr<ModelSource> ModelSource::FromCheckpoint(Checkpoint checkpoint) {
  ModelSource source;
  source.what_ = absl::StrCat("checkpoint ", checkpoint.path());
  ASSIGN_OR_RETURN(source.config_,
                   ParseModelConfig(checkpoint.record().model, checkpoint.path()));
  ASSIGN_OR_RETURN(source.parameters_, ModelParameters(source.config_));
  for (const StateInfo& info : source.parameters_) {
    const SavedState* state = BestState(checkpoint, info.name);
    if (state == nullptr || state->type.dims != info.global_dims) {
      return absl::InvalidArgumentError(
          absl::StrCat(checkpoint.path(), ": parameter '", info.name, "' is ",
                       state == nullptr ? "missing" : ToString(state->type)));
    }
  }
  source.checkpoint_ = std::move(checkpoint);
  return source;
}

absl::StatusOr<HostTensor> ModelSource::ReadStored(const StateInfo& parameter, DType dtype) const {
  if (directory_) return directory_->Read(parameter, dtype);
  ASSIGN_OR_RETURN(HostTensor values,
                   checkpoint_->Read(BestState(*checkpoint_, parameter.name)->name));
  return values.type().dtype == dtype ? std::move(values) : values.Converted(dtype);
}

absl::StatusOr<HostTensor> ModelSource::Read(const StateInfo& parameter, DType dtype) const {
  ASSIGN_OR_RETURN(HostTensor values, ReadStored(parameter, dtype));
  const int64_t elements = values.type().elements();
  const BadElement bad = FindNonFinite(dtype, values.raw(), elements);
  if (bad.index == elements) return values;
  return absl::InvalidArgumentError(
      absl::StrCat(what_, ": tensor '", parameter.name, "' holds ", bad.kind, " at element ",
                   bad.index, " (as ", Name(dtype), "): no model to go on from"));
}

}  // namespace colossus
