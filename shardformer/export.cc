#include "shardformer/export.h"

#include <map>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "tensor/io/safetensors_writer.h"

namespace colossus {
namespace {

std::string TorchName(DType dtype) {
  switch (dtype) {
    case DType::kF64: return "float64";
    case DType::kBF16: return "bfloat16";
    case DType::kF16: return "float16";
    default: return "float32";
  }
}

std::string ConfigText(const ModelConfig& config, DType dtype) {
  nlohmann::json json = config.raw;
  // Readers prefer the newer key; where a file has both, both must be true.
  const bool newer = json.contains("dtype");
  if (newer) json["dtype"] = TorchName(dtype);
  if (!newer || json.contains("torch_dtype")) json["torch_dtype"] = TorchName(dtype);
  json["tie_word_embeddings"] = config.tie_word_embeddings;
  return json.dump(2) + "\n";
}

}  // namespace

absl::Status ExportModel(FileSystem& files, const std::string& directory,
                         const ModelConfig& config, const std::vector<StateInfo>& parameters,
                         DType dtype, const ParameterReader& read) {
  CHECK(IsFloat(dtype)) << Name(dtype);
  CHECK(config.raw.is_object()) << "a config that was read, or a preset's, has its keys";
  RETURN_IF_ERROR(files.MakeDirs(directory));
  std::vector<SafetensorsTensor> tensors;
  std::map<std::string, const StateInfo*> by_name;
  for (const StateInfo& info : parameters) {
    tensors.push_back({info.name, dtype,
                       std::vector<int64_t>(info.disk_dims.begin(), info.disk_dims.end())});
    by_name[info.name] = &info;
  }
  ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsWriter> writer,
                   SafetensorsWriter::Begin(files, JoinPath(directory, "model.safetensors"),
                                            std::move(tensors)));
  for (const SafetensorsTensor& tensor : writer->order()) {
    ASSIGN_OR_RETURN(HostTensor values, read(*by_name.at(tensor.name)));
    const HostTensor stored =
        values.type().dtype == dtype ? std::move(values) : values.Converted(dtype);
    CHECK_EQ(stored.type().bytes(), tensor.bytes()) << tensor.name;
    RETURN_IF_ERROR(writer->Append(tensor.name,
                                   {static_cast<const char*>(stored.raw()),
                                    static_cast<size_t>(stored.type().bytes())}));
  }
  RETURN_IF_ERROR(writer->Finish());
  return files.WriteFileAtomically(JoinPath(directory, "config.json"), ConfigText(config, dtype));
}

}  // namespace colossus
