// ModelDirectory: a Hugging Face directory, checked and ready to be read.
//
// Purpose: config.json and safetensors of a model. Opening decides what every parameter's values
// are, including tied heads, and refuses what does not fit, before memory for the model is taken.
// Thread-safety: const methods may run in parallel. Ownership: owns the mapped files; the
// FileSystem must outlive it.
//
//   ASSIGN_OR_RETURN(ModelDirectory model, ModelDirectory::Open(files, "path/to/model", {}));
//   for (const StateInfo& info : model.parameters())
//     RETURN_IF_ERROR(Use(info, model.Read(info, DType::kF32)));
#ifndef COLOSSUS_SHARDFORMER_MODEL_DIRECTORY_H_
#define COLOSSUS_SHARDFORMER_MODEL_DIRECTORY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "shardformer/config.h"
#include "tensor/graph/state.h"
#include "tensor/host_tensor.h"
#include "tensor/io/safetensors_set.h"

namespace colossus {

struct ModelDirectoryOptions {
  std::string config_file;          // in place of DIR/config.json; empty: that
  bool initialize_missing = false;  // tensors the files lack start at random, and are listed
  uint64_t seed = 0;                // of those
  bool require_tied = false;        // two different tensors for tied roles are refused, not untied
};

class ModelDirectory {
 public:
  // Tied heads: one of the pair fills both; both and equal: tied; both and different: untied with a
  // note. An untied model needs both. Error: a refused config or weights file; InvalidArgument with
  // one list of missing and one of unexpected names, where parameters are missing or whole layers
  // have no place (other tensors without a place are ignored with a note); a tensor of another
  // shape or of a type that is not float.
  static absl::StatusOr<ModelDirectory> Open(FileSystem& files, const std::string& path,
                                             const ModelDirectoryOptions& options);

  // As the files have it: tie_word_embeddings says what holds for these weights.
  const ModelConfig& config() const { return config_; }
  const std::vector<StateInfo>& parameters() const { return parameters_; }
  // What the user should know: ignored tensors, untied heads, initialised tensors.
  const std::vector<std::string>& notes() const { return notes_; }

  // A parameter's values, in global_dims, converted to `dtype`.
  absl::StatusOr<HostTensor> Read(const StateInfo& parameter, DType dtype) const;

 private:
  ModelDirectory(ModelConfig config, SafetensorsSet weights)
      : config_(std::move(config)), weights_(std::move(weights)) {}

  absl::Status Match(const ModelDirectoryOptions& options);
  absl::Status ResolveTying(bool require_tied);
  absl::Status CheckShapes() const;

  ModelConfig config_;
  SafetensorsSet weights_;
  std::vector<StateInfo> parameters_;
  std::map<std::string, std::string> source_;  // parameter → tensor in the files
  std::vector<std::string> notes_;
  uint64_t seed_ = 0;
};

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_MODEL_DIRECTORY_H_
