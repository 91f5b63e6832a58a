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
  const char* key = json.contains("dtype") ? "dtype" : "torch_dtype";
  json[key] = TorchName(dtype);
  json["tie_word_embeddings"] = config.tie_word_embeddings;
  return json.dump(2) + "\n";
}

HostTensor Converted(const HostTensor& values, DType dtype) {
  if (values.type().dtype == dtype) return values;
  HostTensor converted(Type{dtype, values.type().dims});
  for (int64_t i = 0; i < values.type().elements(); ++i) converted.Set(i, values.Get(i));
  return converted;
}

}  // namespace

absl::Status ExportModel(FileSystem& files, const std::string& directory,
                         const ModelConfig& config, const std::vector<StateInfo>& parameters,
                         DType dtype, const ParameterReader& read) {
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
    HostTensor stored = Converted(values, dtype);
    CHECK_EQ(stored.type().bytes(), tensor.bytes()) << tensor.name;
    RETURN_IF_ERROR(writer->Append(tensor.name,
                                   {static_cast<const char*>(stored.raw()),
                                    static_cast<size_t>(stored.type().bytes())}));
  }
  RETURN_IF_ERROR(writer->Finish());
  return files.WriteFileAtomically(JoinPath(directory, "config.json"), ConfigText(config, dtype));
}

}  // namespace colossus
