#include "shardformer/config.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/nearest_name.h"
#include "base/status.h"
#include "shardformer/config_family.h"
#include "shardformer/config_reader.h"
#include "tensor/io/json.h"

namespace colossus {
namespace {

// Far above what anybody trains, and small enough for every product of sizes to fit 63 bits.
constexpr double kMaxParameters = 1e15;

constexpr struct {
  absl::string_view name;
  DType dtype;
} kDTypeNames[] = {{"float64", DType::kF64},
                   {"float32", DType::kF32},
                   {"float16", DType::kF16},
                   {"bfloat16", DType::kBF16}};

const ConfigFamily* ReadFamily(ConfigReader& in, ModelConfig& config) {
  if (in.status().ok() && !in.Has("model_type")) {
    in.Fail("model_type", absl::StrFormat("is missing; it names the model family (%s)",
                                          absl::StrJoin(ModelFamilies(), ", ")));
  }
  config.family = in.String({"model_type"}, "");
  return in.status().ok() ? FindConfigFamily(config.family) : nullptr;
}

// dtype (5.x) goes before torch_dtype (4.x). It is only informative: tensors say their own.
void ReadStoredDType(ConfigReader& in, ModelConfig& config) {
  std::optional<std::string> name = in.StringOrNull({"torch_dtype"});
  if (const auto newer = in.StringOrNull({"dtype"})) name = newer;
  if (!name.has_value()) return;
  for (const auto& row : kDTypeNames) {
    if (*name == row.name || *name == absl::StrCat("torch.", row.name)) {
      config.stored_dtype = row.dtype;
    }
  }
  if (!config.stored_dtype.has_value()) {
    config.notes.push_back(
        absl::StrFormat("dtype \"%s\" has no effect: every tensor says its own type", *name));
  }
}

// Options of any family that would change results.
void RefuseUnsupported(ConfigReader& in) {
  for (const char* key : {"add_cross_attention", "is_encoder_decoder"}) {
    if (in.Bool({key}, false)) {
      in.Fail(key, "true is not supported: the model must be a decoder by itself");
    }
  }
  if (in.ObjectOrNull({"quantization_config"}) != nullptr) {
    in.Fail("quantization_config", "is not supported: use the model's unquantized weights");
  }
  const nlohmann::json* pruned = in.ObjectOrNull({"pruned_heads"});
  if (pruned != nullptr && !pruned->empty()) {
    in.Fail("pruned_heads", "is not supported: use the model with all its heads");
  }
}

}  // namespace

double ModelConfig::AttentionScale(int64_t layer) const {
  const double scale = scale_attention ? 1.0 / std::sqrt(static_cast<double>(head_dim)) : 1.0;
  return scale_attention_by_layer ? scale / static_cast<double>(layer + 1) : scale;
}

absl::StatusOr<ModelConfig> ReadModelConfig(const nlohmann::json& json,
                                            absl::string_view file_name) {
  ConfigReader in(json, file_name, "");
  ModelConfig config;
  const ConfigFamily* family = ReadFamily(in, config);
  RETURN_IF_ERROR(in.status());
  if (family == nullptr) {
    const std::vector<std::string> names = ModelFamilies();
    return absl::UnimplementedError(absl::StrFormat(
        "%s: model_type \"%s\" is not supported; supported: %s%s", file_name, config.family,
        absl::StrJoin(names, ", "), NearestNameHint(config.family, names)));
  }
  const std::vector<std::string> architectures = in.Strings({"architectures"});
  if (!architectures.empty()) config.architecture = architectures[0];
  RefuseUnsupported(in);
  ReadStoredDType(in, config);
  RETURN_IF_ERROR(in.status());
  family->read(in, config);
  RETURN_IF_ERROR(in.status());
  const double parameters = static_cast<double>(family->count(config));
  if (parameters > kMaxParameters) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: the sizes describe a model of %.3g parameters; the limit is %.0g",
                        file_name, parameters, kMaxParameters));
  }
  config.raw = json;
  return config;
}

absl::StatusOr<ModelConfig> LoadModelConfig(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonFile(files, path));
  return ReadModelConfig(json, path);
}

absl::StatusOr<nlohmann::json> ToHuggingFaceConfig(const ModelConfig& config) {
  const ConfigFamily* family = FindConfigFamily(config.family);
  if (family == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrFormat("model family \"%s\" has no config.json here", config.family));
  }
  nlohmann::json json;
  json["model_type"] = config.family;
  if (!config.architecture.empty()) json["architectures"] = {config.architecture};
  for (const auto& row : kDTypeNames) {
    if (config.stored_dtype == row.dtype) json["torch_dtype"] = std::string(row.name);
  }
  RETURN_IF_ERROR(family->write(config, json));
  return json;
}

int64_t ParameterCount(const ModelConfig& config) {
  const ConfigFamily* family = FindConfigFamily(config.family);
  CHECK(family != nullptr) << "unknown family " << config.family;
  return static_cast<int64_t>(family->count(config));
}

std::vector<std::string> ModelFamilies() {
  std::vector<std::string> names;
  for (const ConfigFamily& family : ConfigFamilies()) names.push_back(std::string(family.name));
  return names;
}

}  // namespace colossus
