#include "trainers/lib/config/config.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/file_system.h"
#include "base/status.h"
#include "trainers/lib/config/command_line.h"
#include "trainers/lib/config/config_file.h"
#include "trainers/lib/config/plan_file.h"
#include "trainers/lib/config/presets.h"
#include "trainers/lib/config/validate.h"

namespace colossus {
namespace {

std::string FlagHint(const Key& key) {
  return key.flag[0] == '\0' ? std::string(key.name)
                             : absl::StrCat(key.name, " (--", key.flag, ")");
}

absl::Status CheckTaken(Trainer trainer, const Assignment& assignment) {
  if (assignment.key->TakenBy(trainer)) return absl::OkStatus();
  std::vector<absl::string_view> names;
  for (const Trainer other : AllTrainers()) {
    if (assignment.key->TakenBy(other)) names.push_back(TrainerName(other));
  }
  return absl::InvalidArgumentError(absl::StrCat(assignment.place, ": ", assignment.key->name,
                                                 " has no effect in ", TrainerName(trainer),
                                                 "; only in ", absl::StrJoin(names, ", ")));
}

// The value of a key that the trainer leaves out (Key::LeftOutBy).
absl::Status CheckLeftOut(const Assignment& assignment, Options options) {
  if (assignment.key == FindKey("run.offload_dir")) {
    return absl::InvalidArgumentError(absl::StrCat(
        assignment.place, ": a plan takes no folder; say how much disk there is: --disk=BYTES"));
  }
  return Annotate(SetFromText(*assignment.key, assignment.text, &options),
                  absl::StrCat(assignment.place, ": ", assignment.key->name));
}

// Two keys for one thing: of different layers the higher one's counts.
void Supersede(const std::vector<Assignment>& layer, Config* config) {
  const auto gives = [&](absl::string_view name) {
    return std::any_of(layer.begin(), layer.end(), [&](const Assignment& assignment) {
      return assignment.key == FindKey(name);
    });
  };
  const bool batches = gives("batch.micro_batches"), rows = gives("batch.global_batch");
  if (batches && !rows) {
    config->options.batch.global_batch = 0;
    config->origins.erase("batch.global_batch");
  }
  if (rows && !batches) {
    config->options.batch.micro_batches = 0;
    config->origins.erase("batch.micro_batches");
  }
}

// Adds one layer on top.
absl::Status Apply(const std::vector<Assignment>& layer, Layer kind, Config* config) {
  for (const Assignment& assignment : layer) {
    const Key& key = *assignment.key;
    if (assignment.if_it_counts && !key.TakenBy(config->trainer)) continue;
    if (kind >= Layer::kFile && key.LeftOutBy(config->trainer)) {
      RETURN_IF_ERROR(CheckLeftOut(assignment, config->options));
      continue;
    }
    if (kind >= Layer::kFile) RETURN_IF_ERROR(CheckTaken(config->trainer, assignment));
    if (const auto it = config->origins.find(key.name);
        it != config->origins.end() && it->second.layer == kind) {
      return absl::InvalidArgumentError(absl::StrCat(key.name, " is given twice: by ",
                                                     it->second.place, " and ", assignment.place));
    }
    if (absl::Status status = SetFromText(key, assignment.text, &config->options); !status.ok()) {
      return Annotate(status, absl::StrCat(assignment.place, ": ", key.name));
    }
    if (absl::Status status = CheckChoice(key, config->trainer, config->options); !status.ok()) {
      return Annotate(status, absl::StrCat(assignment.place, ": ", key.name));
    }
    config->origins[key.name] = {kind, assignment.place, assignment.if_it_counts};
  }
  Supersede(layer, config);
  return absl::OkStatus();
}

std::vector<Assignment> FromPreset(const std::vector<PresetValue>& values,
                                   absl::string_view place) {
  std::vector<Assignment> result;
  for (const PresetValue& value : values) {
    const Key* key = FindKey(value.key);
    CHECK(key != nullptr) << "preset value for " << value.key;
    result.push_back({key, value.text, std::string(place)});
  }
  return result;
}

// The preset decides a layer below the one that names it, so it is looked for first.
std::string PresetName(const std::vector<Assignment>& file, const std::vector<Assignment>& flags) {
  std::string name;
  for (const auto* layer : {&file, &flags}) {
    for (const Assignment& assignment : *layer) {
      if (assignment.key == FindKey("model.preset")) name = assignment.text;
    }
  }
  return name;
}

absl::Status CheckEffects(const Config& config) {
  for (const Key& key : Keys()) {
    if (!config.IsGiven(key.name) || Applies(key, config.options)) continue;
    if (config.origins.at(key.name).if_it_counts) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(config.origins.at(key.name).place, ": ", FlagHint(key), " has no effect when ",
                     WhyNotApplied(key, config.options), "; leave it out"));
  }
  return absl::OkStatus();
}

bool Counts(const Config& config, const Key& key) {
  return key.TakenBy(config.trainer) && Applies(key, config.options);
}

}  // namespace

bool Config::IsGiven(absl::string_view name) const {
  const auto it = origins.find(std::string(name));
  return it != origins.end() && it->second.layer >= Layer::kFile;
}

absl::StatusOr<Config> MergeLayers(Trainer trainer, const std::vector<Assignment>& file,
                                   const std::vector<Assignment>& flags) {
  Config config;
  config.trainer = trainer;
  RETURN_IF_ERROR(Apply(FromPreset(TrainerDefaults(trainer), "default"), Layer::kDefault, &config));
  const std::string preset = PresetName(file, flags);
  RETURN_IF_ERROR(Apply(FromPreset(PresetValues(preset), absl::StrCat("preset ", preset)),
                        Layer::kPreset, &config));
  RETURN_IF_ERROR(Apply(file, Layer::kFile, &config));
  RETURN_IF_ERROR(Apply(flags, Layer::kFlag, &config));
  return config;
}

absl::StatusOr<Config> ReadConfig(Trainer trainer, absl::Span<const std::string> arguments,
                                  FileSystem& files) {
  ASSIGN_OR_RETURN(CommandLine line, ParseCommandLine(trainer, arguments));
  if (line.help) {
    Config config;
    config.trainer = trainer;
    config.help = true;
    return config;
  }
  std::vector<Assignment> file_layer;
  for (const std::string& path : line.config_files) {
    absl::StatusOr<std::string> text = files.ReadFile(path);
    if (!text.ok()) return Annotate(text.status(), absl::StrCat("--config=", path));
    ASSIGN_OR_RETURN(std::vector<Assignment> values, ParseConfigFile(path, *text));
    file_layer.insert(file_layer.end(), values.begin(), values.end());
  }
  for (const std::string& path : line.plan_files) {
    absl::StatusOr<std::string> text = files.ReadFile(path);
    if (!text.ok()) return Annotate(text.status(), absl::StrCat("--plan=", path));
    ASSIGN_OR_RETURN(std::vector<Assignment> values, ParsePlanFile(path, *text));
    // A plan is of a training run; other trainers take of it what they compute with.
    std::erase_if(values, [&](const Assignment& value) { return !value.key->TakenBy(trainer); });
    file_layer.insert(file_layer.end(), values.begin(), values.end());
  }
  ASSIGN_OR_RETURN(Config config, MergeLayers(trainer, file_layer, line.assignments));
  RETURN_IF_ERROR(CheckEffects(config));
  RETURN_IF_ERROR(Validate(trainer, config.options));
  return config;
}

std::string ToToml(const Config& config) {
  std::string text;
  absl::string_view section;
  for (const Key& key : Keys()) {
    if (!Counts(config, key)) continue;
    if (key.section() != section) {
      section = key.section();
      absl::StrAppend(&text, text.empty() ? "" : "\n", "[", section, "]\n");
    }
    absl::StrAppend(&text, key.key(), " = ", TomlValue(key, config.options), "\n");
  }
  return text;
}

std::vector<std::string> DifferingKeys(const Config& a, const Config& b) {
  std::vector<std::string> names;
  for (const Key& key : Keys()) {
    if (!Counts(a, key) && !Counts(b, key)) continue;
    if (ValueText(key, a.options) != ValueText(key, b.options)) names.push_back(key.name);
  }
  return names;
}

void EnterUserDirectory() {
  const char* directory = std::getenv("BUILD_WORKING_DIRECTORY");
  if (directory != nullptr && chdir(directory) != 0) {
    std::cerr << "cannot enter " << directory << "; relative paths start in the current folder\n";
  }
}

}  // namespace colossus
