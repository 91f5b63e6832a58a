// Models by name, for training from scratch without a config.json.
//
// Thread-safe: pure functions.
//
//   ASSIGN_OR_RETURN(ModelConfig config, PresetConfig("gpt2-124m"));
#ifndef COLOSSUS_SHARDFORMER_PRESETS_H_
#define COLOSSUS_SHARDFORMER_PRESETS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shardformer/config.h"

namespace colossus {

// The preset `name`, with raw set to what ToHuggingFaceConfig makes of it. Dropout is off: presets
// are for training on texts that are seen about once. The tiny ones have the vocabulary of bytes
// (257 ids, the last one ends a text). NotFound, listing all and the nearest, for other names.
absl::StatusOr<ModelConfig> PresetConfig(absl::string_view name);

// In order of size within a family.
std::vector<std::string> PresetNames();

}  // namespace colossus

#endif  // COLOSSUS_SHARDFORMER_PRESETS_H_
