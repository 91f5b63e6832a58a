#include "trainers/lib/config/command_line.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/nearest_name.h"
#include "base/status.h"
#include "trainers/lib/config/options.h"

namespace colossus {
namespace {

bool IsTruth(const Key& key) {
  Options options;
  return std::holds_alternative<bool*>(key.field(options));
}

std::vector<std::string> ChoicesOf(const Key& key) { return absl::StrSplit(key.choices, '|'); }

std::string TakenByText(const Key& key) {
  std::vector<absl::string_view> names;
  for (const Trainer trainer : AllTrainers()) {
    if (key.TakenBy(trainer)) names.push_back(TrainerName(trainer));
  }
  return absl::StrJoin(names, ", ");
}

absl::StatusOr<const Key*> FlagKey(Trainer trainer, absl::string_view flag) {
  if (const Key* key = FindFlag(flag); key != nullptr) {
    if (key->TakenBy(trainer)) return key;
    // Of those that have no learning rate it is the pipeline's.
    const Key* pipeline = FindKey("plan.schedule");
    if (flag == "schedule" && pipeline->TakenBy(trainer)) return pipeline;
    if (key->LeftOutBy(trainer)) return key;
    return absl::InvalidArgumentError(absl::StrCat(
        "--", flag, " is no flag of ", TrainerName(trainer), "; it is one of ", TakenByText(*key)));
  }
  if (FindKey(flag) != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown flag --", flag, "; write --set ", flag, "=VALUE"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown flag --", flag, "; ", NearestFlag(trainer, flag)));
}

// The text after --set.
absl::StatusOr<Assignment> ParseSet(absl::string_view text) {
  const size_t equals = text.find('=');
  const absl::string_view name = text.substr(0, equals);
  const size_t dot = name.find('.');
  if (equals == absl::string_view::npos || dot == absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("--set ", text, " is not of the form --set section.key=value"));
  }
  const Key* key = FindKey(name);
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--set ", text, ": unknown key '", name, "'; ",
                     NearestKey(name.substr(0, dot), name.substr(dot + 1))));
  }
  return Assignment{key, std::string(text.substr(equals + 1)), absl::StrCat("--set ", name)};
}

bool TakesPlan(Trainer trainer) {
  return trainer == Trainer::kPretrain || trainer == Trainer::kPlan ||
         trainer == Trainer::kEvaluate || trainer == Trainer::kParity;
}

// --schedule is one flag for two keys: the names of learning rates and of pipelines differ.
absl::StatusOr<const Key*> ScheduleKey(absl::string_view value) {
  std::vector<std::string> names;
  for (const char* key : {"schedule.kind", "plan.schedule"}) {
    for (std::string& name : ChoicesOf(*FindKey(key))) {
      if (name == value) return FindKey(key);
      names.push_back(std::move(name));
    }
  }
  const auto choices = [](const char* key) {
    return absl::StrJoin(ChoicesOf(*FindKey(key)), ", ");
  };
  return absl::InvalidArgumentError(
      absl::StrCat("--schedule=", value, " names neither a learning rate's schedule (",
                   choices("schedule.kind"), ") nor a pipeline's (", choices("plan.schedule"), ")",
                   NearestNameHint(absl::AsciiStrToLower(value), names)));
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(Trainer trainer,
                                             absl::Span<const std::string> arguments) {
  CommandLine line;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const absl::string_view argument = arguments[i];
    if (argument == "--help" || argument == "-h") {
      line.help = true;
      continue;
    }
    if (!absl::StartsWith(argument, "--") || argument.size() == 2) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", argument, "' is no flag; everything is given as --flag=value (see --help)"));
    }
    const size_t equals = argument.find('=');
    const absl::string_view flag = argument.substr(
        2, equals == absl::string_view::npos ? absl::string_view::npos : equals - 2);
    const Key* key = nullptr;
    if (flag == "plan" && !TakesPlan(trainer)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--plan is no flag of ", TrainerName(trainer),
                       "; it is one of pretrain, plan, evaluate and parity"));
    }
    if (flag != "config" && flag != "plan" && flag != "set") {
      ASSIGN_OR_RETURN(key, FlagKey(trainer, flag));
    }
    std::string value;
    if (equals != absl::string_view::npos) {
      value = std::string(argument.substr(equals + 1));
    } else if (key != nullptr && IsTruth(*key)) {
      value = "true";
    } else if (i + 1 < arguments.size() && !absl::StartsWith(arguments[i + 1], "--")) {
      value = arguments[++i];
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag, " needs a value: --", flag, "=VALUE"));
    }
    if (flag == "schedule" && (trainer == Trainer::kPretrain || trainer == Trainer::kPlan)) {
      ASSIGN_OR_RETURN(key, ScheduleKey(value));
    }
    if (flag == "config") {
      line.config_files.push_back(value);
    } else if (flag == "plan") {
      line.plan_files.push_back(value);
    } else if (flag == "set") {
      ASSIGN_OR_RETURN(Assignment assignment, ParseSet(value));
      line.assignments.push_back(std::move(assignment));
    } else {
      line.assignments.push_back({key, value, absl::StrCat("--", flag)});
    }
  }
  return line;
}

}  // namespace colossus
