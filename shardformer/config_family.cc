#include "shardformer/config_family.h"

namespace colossus {

const std::vector<ConfigFamily>& ConfigFamilies() {
  static const auto& families = *new std::vector<ConfigFamily>{
      Gpt2ConfigFamily(),
      LlamaConfigFamily(),
      MistralConfigFamily(),
      Qwen2ConfigFamily(),
  };
  return families;
}

const ConfigFamily* FindConfigFamily(absl::string_view name) {
  for (const ConfigFamily& family : ConfigFamilies()) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

}  // namespace colossus
