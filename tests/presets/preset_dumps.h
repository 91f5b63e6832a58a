// Graph text of everything that is compiled for a preset.
//
// Purpose: what the tests of text and determinism look at: the graphs after each pass of training
// (wide and narrow precision, with and without recomputation, one micro-batch and several) and of
// generation, compiled for the null device, so that no model takes memory.
// Thread-safety: plain functions.
//
//   RETURN_IF_ERROR(WritePresetDumps("gpt2-tiny", "dumps"));   // dumps/f32/train.00_input.txt ...
#ifndef COLOSSUS_TESTS_PRESETS_PRESET_DUMPS_H_
#define COLOSSUS_TESTS_PRESETS_PRESET_DUMPS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace colossus {

// Folders under the one given to WritePresetDumps.
std::vector<std::string> PresetDumpFolders();

absl::Status WritePresetDumps(const std::string& preset, const std::string& folder);

}  // namespace colossus

#endif  // COLOSSUS_TESTS_PRESETS_PRESET_DUMPS_H_
