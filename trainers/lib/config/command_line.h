// The flag layer: `--flag=value`, `--flag value`, `--truth_flag`, `--set section.key=value`,
// `--config=FILE`, `--plan=FILE`, `--help`. Which flags exist follows from the schema table alone.
//
// Thread-safe: functions of their arguments.
//
//   ASSIGN_OR_RETURN(CommandLine line, ParseCommandLine(Trainer::kPretrain, {"--steps=100"}));
#ifndef COLOSSUS_TRAINERS_LIB_CONFIG_COMMAND_LINE_H_
#define COLOSSUS_TRAINERS_LIB_CONFIG_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "trainers/lib/config/assignment.h"
#include "trainers/lib/config/schema.h"

namespace colossus {

struct CommandLine {
  bool help = false;
  std::vector<std::string> config_files;  // values of --config, in order
  std::vector<std::string> plan_files;    // values of --plan, in order
  std::vector<Assignment> assignments;    // in order; duplicates are not looked for here
};

// `arguments` without the program's name. InvalidArgument names a flag that does not exist (with
// the nearest one), that the trainer does not take (with those that do), or that lacks a value.
// Values themselves are checked when layers are merged.
absl::StatusOr<CommandLine> ParseCommandLine(Trainer trainer,
                                             absl::Span<const std::string> arguments);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_CONFIG_COMMAND_LINE_H_
