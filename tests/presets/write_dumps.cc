// Writes the graph text of every preset into a folder: write_dumps FOLDER.
#include <cstdio>
#include <string>

#include "base/file_system.h"
#include "shardformer/presets.h"
#include "tests/presets/preset_dumps.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_dumps FOLDER\n");
    return 2;
  }
  for (const std::string& preset : colossus::PresetNames()) {
    absl::Status status = colossus::WritePresetDumps(preset, colossus::JoinPath(argv[1], preset));
    if (!status.ok()) {
      std::fprintf(stderr, "%s: %s\n", preset.c_str(), status.ToString().c_str());
      return 1;
    }
  }
  return 0;
}
