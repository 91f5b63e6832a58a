#include "tools/simulate_pipeline.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/nearest_name.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "parallel/pipeline/costs.h"
#include "parallel/pipeline/gantt.h"
#include "parallel/pipeline/schedule_list.h"
#include "parallel/pipeline/timeline.h"

namespace colossus {
namespace {

constexpr int64_t kMostActions = 2'000'000;  // seconds, and some hundred megabytes
constexpr double kMostTime = 1e12;  // milliseconds, 30 years: sums of them stay exact numbers

struct Settings {
  std::string schedule;
  int stages = 0, micro_batches = 0, chunks = 0;  // 0: not given
  StageCosts times;
  bool has_share = false;  // times.weight_activation is given
  double memory_limit = kNoMemoryLimit;
  std::string objective;
  std::string timeline;
};

struct Flag {
  const char* name;
  const char* help;
  std::function<bool(Settings&, const std::string&)> set;  // false: not a value of the flag
  const char* wanted;                                      // what a value is
};

Flag Size(const char* name, const char* help, int Settings::*field) {
  auto set = [field](Settings& s, const std::string& value) {
    return absl::SimpleAtoi(value, &(s.*field)) && s.*field > 0;
  };
  return {name, help, set, "a whole number from 1 to 2147483647"};
}

Flag Time(const char* name, const char* help, double StageCosts::*field) {
  auto set = [field](Settings& s, const std::string& value) {
    double& time = s.times.*field;
    return absl::SimpleAtod(value, &time) && time >= 0 && time <= kMostTime;
  };
  return {name, help, set, "milliseconds, from 0 to 1e12"};
}

Flag Text(const char* name, const char* help, std::string Settings::*field) {
  auto set = [field](Settings& s, const std::string& value) {
    s.*field = value;
    return !value.empty();
  };
  return {name, help, set, "not empty"};
}

const std::vector<Flag>& Flags() {
  static const auto* const kFlags = new std::vector<Flag>{
      Text("schedule", "which schedule (needed)", &Settings::schedule),
      Size("stages", "stages of the pipeline (needed)", &Settings::stages),
      Size("micro_batches", "micro-batches of an update (needed)", &Settings::micro_batches),
      Size("chunks", "parts of the model a stage holds (default: the schedule's, 1 or 2)",
           &Settings::chunks),
      Time("forward_ms", "of a micro-batch through all chunks of a stage (default 1)",
           &StageCosts::forward),
      Time("backward_input_ms", "gradient of the input, likewise (default 1)",
           &StageCosts::backward_input),
      Time("backward_weight_ms", "gradient of the weights, likewise (default 1)",
           &StageCosts::backward_weight),
      Time("communication_ms", "between stages, each message; the sender goes on (default 0)",
           &StageCosts::communication),
      {"memory_limit",
       "most activations of a stage, in micro-batches through it (default: no limit)",
       [](Settings& s, const std::string& value) {
         return absl::SimpleAtod(value, &s.memory_limit) && s.memory_limit > 0;
       },
       "a number over 0"},
      {"weight_activation",
       "share of an activation that is kept from backward-input to backward-weight (default 1)",
       [](Settings& s, const std::string& value) {
         double& share = s.times.weight_activation;
         s.has_share = true;
         return absl::SimpleAtod(value, &share) && share >= 0 && share <= 1;
       },
       "a number from 0 to 1"},
      {"objective", "of searched: span (default) or makespan",
       [](Settings& s, const std::string& value) {
         s.objective = value;
         return value == "span" || value == "makespan";
       },
       "span or makespan"},
      {"timeline", "file to write: .txt, .svg, or .json for chrome://tracing and Perfetto",
       [](Settings& s, const std::string& value) {
         s.timeline = value;
         return absl::EndsWith(value, ".txt") || absl::EndsWith(value, ".svg") ||
                absl::EndsWith(value, ".json");
       },
       "a file that ends in .txt, .svg or .json"},
  };
  return *kFlags;
}

std::string Help() {
  std::string text =
      "Runs a pipeline schedule in virtual time and prints one line of JSON:\n"
      "  makespan_ms       end of the last action\n"
      "  span_ms           longest stage, from the start of its first to the end of its last "
      "action\n"
      "  bubble_rate       share of the span without work, (span - m (F + B + W)) / span\n"
      "  peak_activations  of each stage, in micro-batches through it, freed at the end of\n"
      "                    backward-weight\n"
      "  messages          activations and gradients sent between stages\n\nFlags:\n";
  for (const Flag& flag : Flags())
    absl::StrAppendFormat(&text, "  --%-20s %s\n", flag.name, flag.help);
  absl::StrAppend(&text, "\nSchedules:\n");
  for (const Schedule& schedule : AllSchedules()) {
    absl::StrAppendFormat(&text, "  %-12s %s\n", schedule.name, schedule.summary);
  }
  return text;
}

absl::Status UnknownFlag(absl::string_view name) {
  std::vector<std::string> names;
  for (const Flag& flag : Flags()) names.emplace_back(flag.name);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown flag --", name, NearestNameHint(name, names), "; see --help"));
}

absl::StatusOr<Settings> ParseFlags(const std::vector<std::string>& arguments) {
  Settings settings;
  std::vector<std::string> given;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!absl::StartsWith(argument, "--")) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", argument, "' is no flag; write --flag=value (see --help)"));
    }
    size_t equals = argument.find('=');
    std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    auto flag =
        std::find_if(Flags().begin(), Flags().end(), [&](const Flag& f) { return f.name == name; });
    if (flag == Flags().end()) return UnknownFlag(name);
    if (std::count(given.begin(), given.end(), name) > 0) {
      return absl::InvalidArgumentError(absl::StrCat("--", name, " is given twice"));
    }
    given.push_back(name);
    if (equals == std::string::npos && i + 1 == arguments.size()) {
      return absl::InvalidArgumentError(absl::StrCat("--", name, " has no value"));
    }
    std::string value = equals == std::string::npos ? arguments[++i] : argument.substr(equals + 1);
    if (!flag->set(settings, value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, "=", value, ": the value is ", flag->wanted));
    }
  }
  for (const char* needed : {"schedule", "stages", "micro_batches"}) {
    if (std::count(given.begin(), given.end(), needed) > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", needed, " is needed; see --help"));
  }
  return settings;
}

absl::StatusOr<ScheduleInput> InputOf(const Settings& settings, const Schedule& schedule) {
  ScheduleInput input;
  int chunks = settings.chunks > 0 ? settings.chunks : schedule.default_chunks;
  input.shape = {settings.stages, chunks, settings.micro_batches};
  double actions = 3.0 * settings.stages * chunks * settings.micro_batches;
  if (actions > kMostActions) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "--stages x --chunks x --micro_batches make %.0f actions; at most %d can be simulated: use "
        "smaller ones",
        actions, kMostActions));
  }
  if (!settings.objective.empty() && schedule.name != "searched") {
    return absl::InvalidArgumentError(absl::StrCat("--objective has no effect on schedule ",
                                                   schedule.name,
                                                   "; leave it out, or use searched"));
  }
  const StageCosts& times = settings.times;
  if (times.forward + times.backward_input + times.backward_weight <= 0) {
    return absl::InvalidArgumentError(
        "--forward_ms, --backward_input_ms and --backward_weight_ms are all 0: nothing takes time");
  }
  input.costs = UniformCosts(input.shape, times);
  input.memory_limit = settings.memory_limit;
  if (settings.objective == "makespan") input.objective = Objective::kMakespan;
  return input;
}

// Where a backward is one action, nothing is kept between its halves.
absl::Status CheckShare(const Settings& settings, const Timeline& timeline) {
  if (!settings.has_share || timeline.split_backward) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--weight_activation has no effect on schedule ", settings.schedule,
                   ", whose backward is one action; leave it out, or use one that splits it, as "
                   "zb-h1 or searched"));
}

// Without the noise of sums in the last digits.
double Clean(double value) {
  double clean = 0;
  return absl::SimpleAtod(absl::StrFormat("%.12g", value), &clean) ? clean : value;
}

std::string ResultLine(const TimelineFigures& figures) {
  nlohmann::ordered_json line;
  line["makespan_ms"] = Clean(figures.makespan);
  line["span_ms"] = Clean(figures.span);
  line["bubble_rate"] = figures.bubble_rate < 1e-12 ? 0 : Clean(figures.bubble_rate);
  std::vector<double> peaks;
  for (double peak : figures.peak_activations) peaks.push_back(Clean(peak));
  line["peak_activations"] = peaks;
  line["messages"] = figures.messages;
  return line.dump() + "\n";
}

// Before seconds go into what could not be written then.
absl::Status TryTimeline(const Settings& settings, FileSystem& files) {
  if (settings.timeline.empty()) return absl::OkStatus();
  const std::string tried = settings.timeline + ".tmp";
  const absl::Status made = files.Create(tried).status();
  if (made.ok()) RETURN_IF_ERROR(files.Remove(tried));
  if (made.ok() && !files.IsDirectory(settings.timeline)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--timeline=", settings.timeline, " cannot be written: ",
                   made.ok() ? "it is a folder" : made.message(),
                   "; name a file in a folder that is there and can be written"));
}

absl::Status WriteTimeline(const Settings& settings, const Timeline& timeline,
                           const PipelineCosts& costs, FileSystem& files) {
  std::string data;
  if (absl::EndsWith(settings.timeline, ".txt")) {
    data = GanttText(timeline, /*columns=*/160);
  } else if (absl::EndsWith(settings.timeline, ".svg")) {
    data = GanttSvg(timeline);
  } else {
    data = GanttChromeTrace(timeline, costs, /*microseconds=*/1000);
  }
  return Annotate(files.WriteFileAtomically(settings.timeline, data), settings.timeline);
}

}  // namespace

SimulatorOutput RunSimulator(const std::vector<std::string>& arguments, FileSystem& files) {
  auto failed = [](int status, const absl::Status& error) {
    return SimulatorOutput{status, "", absl::StrCat("error: ", error.message(), "\n")};
  };
  if (std::count(arguments.begin(), arguments.end(), "--help") > 0) return {0, Help(), ""};
  absl::StatusOr<Settings> settings = ParseFlags(arguments);
  if (!settings.ok()) return failed(2, settings.status());
  absl::StatusOr<const Schedule*> schedule = FindSchedule(settings->schedule);
  if (!schedule.ok()) return failed(2, schedule.status());
  absl::StatusOr<ScheduleInput> input = InputOf(*settings, **schedule);
  if (!input.ok()) return failed(2, input.status());
  if (absl::Status tried = TryTimeline(*settings, files); !tried.ok()) return failed(2, tried);
  absl::StatusOr<Timeline> timeline = Simulate(**schedule, *input);
  if (!timeline.ok()) {
    return failed(absl::IsInvalidArgument(timeline.status()) ? 2 : 1, timeline.status());
  }
  if (absl::Status share = CheckShare(*settings, *timeline); !share.ok()) return failed(2, share);
  if (!settings->timeline.empty()) {
    absl::Status written = WriteTimeline(*settings, *timeline, input->costs, files);
    if (!written.ok()) return failed(1, written);
  }
  return {0, ResultLine(Measure(*timeline, input->costs)), ""};
}

}  // namespace colossus
