#include "parallel/pipeline/gantt.h"

#include <string>

#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "parallel/pipeline/schedule_list.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Timeline Of(const char* name, const PipelineShape& shape) {
  PipelineCosts costs = UniformCosts(shape, StageCosts());
  absl::StatusOr<const Schedule*> schedule = FindSchedule(name);
  absl::StatusOr<Timeline> timeline = Simulate(**schedule, {.shape = shape, .costs = costs});
  EXPECT_OK(timeline.status());
  return *timeline;
}

TEST(GanttTest, TextHasALineForEachStage) {
  // 9 slots of 3 columns.
  EXPECT_EQ(GanttText(Of("1f1b", {2, 1, 2}), 27),
            "stage 0 F0-F1-......B0====...B1====\n"
            "stage 1 ...F0-B0====F1-B1====......\n");
  EXPECT_EQ(GanttText(Of("zb-v", {1, 2, 1}), 6), "stage 0 FfbBwW\n");
}

TEST(GanttTest, SvgHasEveryAction) {
  std::string svg = GanttSvg(Of("v-min", {3, 2, 2}));
  EXPECT_THAT(svg, StartsWith("<svg xmlns="));
  EXPECT_THAT(svg, HasSubstr("backward-weight of micro-batch 1 by stage 2, chunk 1, "));
  size_t rectangles = 0;
  for (size_t at = 0; (at = svg.find("<rect", at)) != std::string::npos; ++at) ++rectangles;
  EXPECT_EQ(rectangles, 3u * 2 * 2 * 3);
}

TEST(GanttTest, ChromeTraceHasTimesAndCounters) {
  Timeline timeline = Of("zb-h1", {2, 1, 2});
  PipelineCosts costs = UniformCosts(timeline.shape, StageCosts());
  nlohmann::json trace = nlohmann::json::parse(GanttChromeTrace(timeline, costs, 1000));
  int actions = 0, names = 0;
  double end = 0, most = 0;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") {
      ++actions;
      end = std::max(end, event["ts"].get<double>() + event["dur"].get<double>());
    }
    if (event["ph"] == "M") ++names;
    if (event["ph"] == "C") most = std::max(most, event["args"]["kept"].get<double>());
  }
  EXPECT_EQ(actions, 2 * 2 * 3);
  EXPECT_EQ(names, 2);
  TimelineFigures figures = Measure(timeline, costs);
  EXPECT_DOUBLE_EQ(end, 1000 * figures.makespan);
  EXPECT_DOUBLE_EQ(most, 2);
}

}  // namespace
}  // namespace colossus
