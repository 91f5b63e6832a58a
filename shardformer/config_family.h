// The list of model families that config.h knows, and what a family provides.
//
// Thread-safe: constants and pure functions only.
#ifndef COLOSSUS_SHARDFORMER_CONFIG_FAMILY_H_
#define COLOSSUS_SHARDFORMER_CONFIG_FAMILY_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "shardformer/config.h"
#include "shardformer/config_reader.h"

namespace colossus {

struct ConfigFamily {
  absl::string_view name;  // model_type

  // Fills what depends on the family from `in`, which keeps the first error. Values are then
  // partly defaults; a reader divides by none of them before it has asked in.status().
  void (*read)(ConfigReader& in, ModelConfig& config);

  // Adds the family's keys to `json`. InvalidArgument for fields that the family's config.json has
  // no way to say.
  absl::Status (*write)(const ModelConfig& config, nlohmann::json& json);

  // Trainable parameters, in a type in which the sizes that `read` accepts do not overflow.
  long double (*count)(const ModelConfig& config);
};

// Ascending by name.
const std::vector<ConfigFamily>& ConfigFamilies();

// One of ConfigFamilies; none: nullptr.
const ConfigFamily* FindConfigFamily(absl::string_view name);

// The families, each in config_<name>.cc.
ConfigFamily Gpt2ConfigFamily();
ConfigFamily LlamaConfigFamily();
ConfigFamily MistralConfigFamily();
ConfigFamily Qwen2ConfigFamily();

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_CONFIG_FAMILY_H_
