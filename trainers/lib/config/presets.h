// The preset layer: values that come with a model preset, and the few defaults that differ by
// trainer. Shapes of preset models are the model library's.
//
// Thread-safe: the tables are constant.
//
//   for (const PresetValue& value : PresetValues("gpt2-tiny")) ...
#ifndef COLOSSUS_TRAINERS_LIB_CONFIG_PRESETS_H_
#define COLOSSUS_TRAINERS_LIB_CONFIG_PRESETS_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "trainers/lib/config/schema.h"

namespace colossus {

struct PresetValue {
  const char* owner;  // name of a preset or a trainer
  const char* key;    // "section.key"
  const char* text;   // value as a flag would give it
};

// Values that `--preset=preset` sets below file and flags; empty for an unknown name.
std::vector<PresetValue> PresetValues(absl::string_view preset);
// Defaults of this trainer that differ from options.h.
std::vector<PresetValue> TrainerDefaults(Trainer trainer);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CONFIG_PRESETS_H_
