// The merged configuration of one run: default < preset < file < flags.
//
// Thread-safe once made: a value type.
//
//   absl::StatusOr<Config> config =
//       ReadConfig(Trainer::kPretrain, {"--preset=gpt2-tiny", "--data=a.txt"}, RealFileSystem());
//   if (!config.ok()) { print config.status().message(); return 2; }
//   if (config->help) { print HelpText(Trainer::kPretrain); return 0; }
//   config->options.optimizer.learning_rate
#ifndef COLOSSUS_TRAINERS_LIB_CONFIG_CONFIG_H_
#define COLOSSUS_TRAINERS_LIB_CONFIG_CONFIG_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/file_system.h"
#include "trainers/lib/config/assignment.h"
#include "trainers/lib/config/options.h"
#include "trainers/lib/config/schema.h"

namespace colossus {

// Later ones win.
enum class Layer { kDefault, kPreset, kFile, kFlag };

struct Origin {
  Layer layer = Layer::kDefault;
  std::string place;  // "run.toml:7", "--steps", "preset gpt2-tiny"; empty for a default
  bool if_it_counts = false;  // as Assignment's
};

struct Config {
  Trainer trainer = Trainer::kPretrain;
  Options options;
  std::map<std::string, Origin> origins;  // by Key::name; keys at their default are absent
  bool help = false;                      // --help was given: nothing else was read

  // Whether a file or a flag set it (not a preset).
  bool IsGiven(absl::string_view name) const;
};

// Reads flags and the files of --config and --plan (all files are one layer), merges the layers and
// checks the result (validate.h). Every error is one to end with exit status 2 after printing its
// message, which names file and line or flag, key and remedy. `arguments` without the program's
// name.
absl::StatusOr<Config> ReadConfig(Trainer trainer, absl::Span<const std::string> arguments,
                                  FileSystem& files);

// Only merging, for tests and tools: each list is one layer. Refuses a key given twice in a layer,
// keys the trainer does not take, wrong types and ranges. Does not check that keys have an effect.
absl::StatusOr<Config> MergeLayers(Trainer trainer, const std::vector<Assignment>& file,
                                   const std::vector<Assignment>& flags);

// All keys that have an effect in this run, defaults included. As a --config file for the same
// trainer it gives the same text again.
std::string ToToml(const Config& config);

// Names of keys with an effect whose values differ, in the table's order: for resuming.
std::vector<std::string> DifferingKeys(const Config& a, const Config& b);

// `bazel run` starts programs in a folder of its own; this goes back to the user's
// (BUILD_WORKING_DIRECTORY), so that relative paths mean what they say. Call it first in main().
void EnterUserDirectory();

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CONFIG_CONFIG_H_
