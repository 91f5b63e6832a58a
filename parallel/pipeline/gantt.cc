#include "parallel/pipeline/gantt.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace colossus {
namespace {

char LetterOf(const Action& action) {
  char letter = 'B';
  if (action.kind == ActionKind::kForward) letter = 'F';
  if (action.kind == ActionKind::kBackwardWeight) letter = 'W';
  return action.chunk % 2 == 0 ? letter : static_cast<char>(letter - 'A' + 'a');
}

char FillOf(const Action& action) {
  switch (action.kind) {
    case ActionKind::kForward:
      return '-';
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
      return '=';
    case ActionKind::kBackwardWeight:
      return '~';
  }
  return '?';
}

// 0xrrggbb, lighter with each chunk.
std::string ColourOf(const Action& action, int chunks) {
  int rgb[3] = {0x4c, 0x8b, 0xd6};  // forward
  if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardInput) {
    rgb[0] = 0x5b, rgb[1] = 0xb0, rgb[2] = 0x6f;
  } else if (action.kind == ActionKind::kBackwardWeight) {
    rgb[0] = 0xe0, rgb[1] = 0x9a, rgb[2] = 0x3c;
  }
  double light = chunks == 1 ? 0 : 0.55 * action.chunk / (chunks - 1);
  for (int& channel : rgb) channel += static_cast<int>(light * (255 - channel));
  return absl::StrFormat("#%02x%02x%02x", rgb[0], rgb[1], rgb[2]);
}

double MakespanOf(const Timeline& timeline) {
  double end = 0;
  for (const auto& stage : timeline.stages) end = std::max(end, stage.back().end);
  return end;
}

}  // namespace

std::string GanttText(const Timeline& timeline, int columns) {
  double makespan = MakespanOf(timeline);
  double scale = makespan > 0 ? columns / makespan : 0;
  std::string text;
  size_t name_width = absl::StrCat("stage ", timeline.stages.size() - 1).size();
  for (size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    std::string line(columns, '.');
    for (const TimedAction& timed : timeline.stages[stage]) {
      long from = std::lround(timed.start * scale), to = std::lround(timed.end * scale);
      std::string label =
          absl::StrCat(std::string(1, LetterOf(timed.action)), timed.action.micro_batch);
      if (static_cast<long>(label.size()) > to - from) label.resize(to > from ? 1 : 0);
      label.resize(to - from, FillOf(timed.action));
      line.replace(from, label.size(), label);
    }
    std::string name = absl::StrCat("stage ", stage);
    name.resize(name_width, ' ');
    absl::StrAppend(&text, name, " ", line, "\n");
  }
  return text;
}

std::string GanttSvg(const Timeline& timeline) {
  constexpr double kWidth = 1600, kRow = 26, kLeft = 70, kTop = 10;
  double makespan = MakespanOf(timeline);
  double scale = makespan > 0 ? kWidth / makespan : 0;
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n",
      kLeft + kWidth + 10, kTop + kRow * timeline.stages.size() + 10);
  for (size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    double y = kTop + kRow * stage;
    absl::StrAppendFormat(&svg, "<text x=\"4\" y=\"%g\">stage %d</text>\n", y + 16, stage);
    for (const TimedAction& timed : timeline.stages[stage]) {
      double x = kLeft + timed.start * scale, width = (timed.end - timed.start) * scale;
      absl::StrAppendFormat(
          &svg,
          "<g><title>%s, %g to %g</title><rect x=\"%.3f\" y=\"%g\" width=\"%.3f\" height=\"%g\" "
          "fill=\"%s\" stroke=\"white\" stroke-width=\"0.5\"/>",
          ToString(timed.action), timed.start, timed.end, x, y, width, kRow - 4,
          ColourOf(timed.action, timeline.shape.chunks));
      std::string label = absl::StrCat(timed.action.micro_batch);
      if (width > 7.0 * label.size()) {
        absl::StrAppendFormat(&svg, "<text x=\"%.3f\" y=\"%g\" text-anchor=\"middle\">%s</text>",
                              x + width / 2, y + 15, label);
      }
      absl::StrAppend(&svg, "</g>\n");
    }
  }
  return svg + "</svg>\n";
}

std::string GanttChromeTrace(const Timeline& timeline, const PipelineCosts& costs,
                             double microseconds) {
  PipelineActions actions = timeline.actions();
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  for (size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    std::string name = absl::StrCat("stage ", stage);
    events.push_back({{"ph", "M"},
                      {"name", "thread_name"},
                      {"pid", 0},
                      {"tid", stage},
                      {"args", {{"name", name}}}});
    double kept = 0;
    auto count = [&](double time, double more) {
      if (more == 0) return;
      kept += more;
      events.push_back({{"ph", "C"},
                        {"name", absl::StrCat("activations of ", name)},
                        {"pid", 0},
                        {"ts", time * microseconds},
                        {"args", {{"kept", std::round(kept * 1e9) / 1e9}}}});
    };
    for (const TimedAction& timed : timeline.stages[stage]) {
      const Action& action = timed.action;
      int index = actions.Index(action);
      count(timed.start, KeptAtStart(actions, costs, index));
      events.push_back(
          {{"ph", "X"},
           {"name", absl::StrCat(std::string(1, LetterOf(action)), action.micro_batch)},
           {"cat", std::string(ToString(action.kind))},
           {"pid", 0},
           {"tid", stage},
           {"ts", timed.start * microseconds},
           {"dur", (timed.end - timed.start) * microseconds},
           {"args",
            {{"micro_batch", action.micro_batch},
             {"chunk", action.chunk},
             {"part", actions.PartAt(index)}}}});
      count(timed.end, -FreedAtEnd(actions, costs, index));
    }
  }
  nlohmann::ordered_json trace;
  trace["displayTimeUnit"] = "ms";
  trace["traceEvents"] = std::move(events);
  return trace.dump() + "\n";
}

}  // namespace colossus
