// Writing a model as a Hugging Face directory.
//
// Purpose: config.json and model.safetensors as the peer library reads them: canonical names,
// original orientation, a tied head stored once. One tensor at a time is in memory.
// Thread-safety: plain functions.
//
//   RETURN_IF_ERROR(ExportModel(files, "out/model", config, parameters, DType::kF32, read));
#ifndef COLOSSUS_SHARDFORMER_EXPORT_H_
#define COLOSSUS_SHARDFORMER_EXPORT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/file_system.h"
#include "shardformer/config.h"
#include "tensor/graph/state.h"
#include "tensor/host_tensor.h"

namespace colossus {

// Values of a parameter, of any float dtype, in row-major order.
using ParameterReader = std::function<absl::StatusOr<HostTensor>(const StateInfo&)>;

// Makes the directory if missing; replaces the two files, each at once. `dtype`: of the stored
// tensors, a float type. config.json is config.raw, every key of it, with the dtype and
// tie_word_embeddings set to what holds. REQUIRES: config.raw is an object. Error: of the file
// system or of `read`.
absl::Status ExportModel(FileSystem& files, const std::string& directory,
                         const ModelConfig& config, const std::vector<StateInfo>& parameters,
                         DType dtype, const ParameterReader& read);

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_EXPORT_H_
