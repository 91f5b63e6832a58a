// RunInputs: what all ranks of a process read alike: the model to begin with, and the data.
//
// Purpose: model and data are opened once, by whichever rank comes first, and shared; ranks of
// other processes open their own. What is refused is refused to all of them in the same words.
// Thread-safe. Ownership: what it gives lives as long as somebody holds it; the file system, the
// options and the log must outlive it.
//
//   RunInputs inputs(files, options, log);
//   ASSIGN_OR_RETURN(std::shared_ptr<const ModelInput> model, inputs.Model(check));
//   ASSIGN_OR_RETURN(std::shared_ptr<const DataSet> data, inputs.Data(*model, 1024));
#ifndef COLOSSUS_TRAINERS_LIB_RUN_RUN_INPUTS_H_
#define COLOSSUS_TRAINERS_LIB_RUN_RUN_INPUTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "shardformer/config.h"
#include "shardformer/tokenizer/tokenizer.h"
#include "tensor/exec/disk/file_disk_tier.h"
#include "trainers/lib/checkpoint/model_source.h"
#include "trainers/lib/config/log.h"
#include "trainers/lib/config/options.h"
#include "trainers/lib/data/data.h"

namespace colossus {

struct ModelInput {
  std::unique_ptr<Tokenizer> tokenizer;  // null without text
  bool has_text = false;                 // the data is text that `tokenizer` cut
  ModelConfig model;
  std::optional<ModelSource> weights;  // none: random first values
};

class RunInputs {
 public:
  // `offload`: how each rank opens its file for what goes to disk.
  RunInputs(FileSystem& files, const Options& options, Log& log, FileDiskTierOptions offload = {})
      : files_(files), options_(options), log_(log), offload_(std::move(offload)) {}

  // The model of model.* keys. `check` sees its configuration before any weight is read.
  using Check = std::function<absl::Status(const ModelConfig&)>;
  absl::StatusOr<std::shared_ptr<const ModelInput>> Model(const Check& check);
  // The rows of data.* keys, for that model.
  absl::StatusOr<std::shared_ptr<const DataSet>> Data(const ModelInput& model,
                                                      int64_t sequence_length);
  const FileDiskTierOptions& offload() const { return offload_; }

 private:
  absl::Status OpenModel(const Check& check, ModelInput* input);

  FileSystem& files_;
  const Options& options_;
  Log& log_;
  const FileDiskTierOptions offload_;
  std::mutex mutex_;  // held while opening: other ranks wait for the result
  std::optional<absl::StatusOr<std::shared_ptr<const ModelInput>>> model_;  // guarded by mutex_
  std::optional<absl::StatusOr<std::shared_ptr<const DataSet>>> data_;      // likewise
};

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_RUN_RUN_INPUTS_H_
