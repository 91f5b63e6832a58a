// Every fixed schedule against published formulas and tables, and against what holds for all.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/seed.h"
#include "base/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "parallel/pipeline/fixed_schedules.h"
#include "parallel/pipeline/schedule_list.h"
#include "parallel/pipeline/timeline.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;

// Sums of up to some thousand durations differ from the formula by rounding only.
constexpr double kRounding = 1e-9;

struct Outcome {
  TimelineFigures figures;
  double peak = 0;  // of all stages
};

Outcome OutcomeOf(absl::string_view name, const PipelineShape& shape,
                  const StageCosts& times = {}) {
  absl::StatusOr<const Schedule*> schedule = FindSchedule(name);
  EXPECT_OK(schedule.status());
  PipelineCosts costs = UniformCosts(shape, times);
  absl::StatusOr<Timeline> timeline = Simulate(**schedule, {.shape = shape, .costs = costs});
  EXPECT_OK(timeline.status()) << name << " with " << ToString(shape);
  if (!timeline.ok()) return {};
  Outcome outcome{Measure(*timeline, costs)};
  for (double peak : outcome.figures.peak_activations) outcome.peak = std::max(outcome.peak, peak);
  return outcome;
}

// Forward, backward-input and backward-weight of 1 each; totals are the longest stage's.
TEST(SchedulesTest, PublishedTotalsAndPeaksOfEqualTimes) {
  struct Row {
    int p, m;
    double total, h1, h2, h2_peak;
  };
  for (const Row& row : std::vector<Row>{{2, 4, 15, 13, 12, 3},
                                         {4, 4, 21, 15, 15, 4},
                                         {4, 8, 33, 27, 24, 7},
                                         {4, 12, 45, 39, 36, 7},
                                         {8, 8, 45, 31, 31, 8},
                                         {8, 16, 69, 55, 48, 15},
                                         {8, 24, 93, 79, 72, 15},
                                         {8, 32, 117, 103, 96, 15}}) {
    SCOPED_TRACE(absl::StrCat(row.p, " stages, ", row.m, " micro-batches"));
    PipelineShape shape{row.p, 1, row.m};
    Outcome gpipe = OutcomeOf("gpipe", shape), one = OutcomeOf("1f1b", shape);
    EXPECT_EQ(gpipe.figures.span, row.total);
    EXPECT_EQ(gpipe.peak, row.m);
    EXPECT_EQ(one.figures.span, row.total);
    EXPECT_EQ(one.peak, row.p);
    Outcome h1 = OutcomeOf("zb-h1", shape), h2 = OutcomeOf("zb-h2", shape);
    EXPECT_EQ(h1.figures.span, row.h1);
    EXPECT_EQ(h1.peak, row.p);
    EXPECT_EQ(h2.figures.span, row.h2);
    EXPECT_EQ(h2.peak, row.h2_peak);
    if (row.m > row.p) {
      EXPECT_EQ(h2.figures.makespan, h1.figures.makespan);
    }
  }
  // Others of the same kind; makespans are listed.
  EXPECT_EQ(OutcomeOf("zb-h2", {16, 1, 48}).figures.makespan, 159);
  EXPECT_EQ(OutcomeOf("zb-h2", {16, 1, 64}).figures.makespan, 207);
  EXPECT_EQ(OutcomeOf("zb-h2", {2, 1, 4}).figures.makespan, 13);
  EXPECT_EQ(OutcomeOf("zb-h2", {4, 1, 4}).figures.makespan, 16);
  EXPECT_EQ(OutcomeOf("zb-h2", {8, 1, 8}).figures.makespan, 34);
}

// Two chunks, each action 1/2: rates of the whole, peaks in micro-batches.
TEST(SchedulesTest, PublishedRatesAndPeaksOfWaves) {
  struct Row {
    int p, m;
    double min, min_peak, half, half_peak;
  };
  for (const Row& row : std::vector<Row>{{4, 8, 0.1864, 2, 0.0943, 3},
                                         {4, 12, 0.1325, 2, 0.0649, 3},
                                         {8, 16, 0.2195, 4, 0.1504, 5},
                                         {8, 24, 0.1579, 4, 0.1056, 5},
                                         {8, 32, 0.1233, 4, 0.0813, 5}}) {
    SCOPED_TRACE(absl::StrCat(row.p, " stages, ", row.m, " micro-batches"));
    PipelineShape shape{row.p, 2, row.m};
    Outcome min = OutcomeOf("v-min", shape), half = OutcomeOf("v-half", shape),
            v = OutcomeOf("zb-v", shape);
    EXPECT_LE(min.figures.bubble_rate, row.min + 0.00005);  // four digits are listed
    EXPECT_EQ(min.peak, row.min_peak);
    EXPECT_LE(half.figures.bubble_rate, row.half + 0.00005);
    EXPECT_EQ(half.peak, row.half_peak);
    EXPECT_NEAR(v.figures.bubble_rate, 0, kRounding);
    EXPECT_EQ(v.peak, row.p);
  }
}

// A bubble of 0 and 6 m + p - 1 chunk slots, of 1/2 each; peaks of all waves.
TEST(SchedulesTest, WavesOfAnySize) {
  for (int p : {1, 2, 3, 4, 5, 6, 7, 8, 10, 13, 16}) {
    for (int m : {p, p + 1, 2 * p, 2 * p + 1, 3 * p, 4 * p}) {
      SCOPED_TRACE(absl::StrCat(p, " stages, ", m, " micro-batches"));
      PipelineShape shape{p, 2, m};
      Outcome v = OutcomeOf("zb-v", shape), half = OutcomeOf("v-half", shape),
              min = OutcomeOf("v-min", shape);
      EXPECT_EQ(2 * v.figures.makespan, 6 * m + p - 1);
      EXPECT_EQ(v.peak, p);
      if (m < 2 * p) continue;
      EXPECT_EQ(2 * v.figures.span, 6 * m);
      EXPECT_EQ(half.peak, (p + 2) / 2);
      EXPECT_EQ(min.peak, (p + 4) / 3);
      EXPECT_LE(v.figures.span, half.figures.span);
      EXPECT_LE(half.figures.span, min.figures.span);
    }
  }
  EXPECT_EQ(2 * OutcomeOf("zb-v", {4, 2, 8}).figures.makespan, 51);
  EXPECT_EQ(2 * OutcomeOf("zb-v", {8, 2, 24}).figures.makespan, 151);
  EXPECT_EQ(2 * OutcomeOf("zb-v", {16, 2, 64}).figures.makespan, 399);
}

// The spans in chunk slots, of 1/2 each, that a published generator of these patterns reaches.
TEST(SchedulesTest, WavesAreNotLongerThanThePublishedOnes) {
  struct Row {
    int p, m, min, half;
  };
  for (const Row& row : std::vector<Row>{{2, 4, 27, 25},
                                         {2, 8, 51, 49},
                                         {3, 6, 41, 41},
                                         {3, 9, 59, 59},
                                         {4, 4, 35, 34},
                                         {4, 5, 41, 38},
                                         {4, 16, 107, 101},
                                         {5, 10, 75, 71},
                                         {6, 12, 89, 83},
                                         {6, 18, 125, 119},
                                         {7, 14, 107, 101},
                                         {8, 8, 75, 65},
                                         {4, 32, 203, 197},
                                         {10, 20, 155, 143},
                                         {12, 24, 185, 173},
                                         {16, 32, 251, 233}}) {
    SCOPED_TRACE(absl::StrCat(row.p, " stages, ", row.m, " micro-batches"));
    EXPECT_LE(2 * OutcomeOf("v-min", {row.p, 2, row.m}).figures.span, row.min);
    EXPECT_LE(2 * OutcomeOf("v-half", {row.p, 2, row.m}).figures.span, row.half);
  }
}

// Measured times of two models, and the published bubble rates.
TEST(SchedulesTest, PublishedRatesOfMeasuredTimes) {
  struct Row {
    int m;
    StageCosts times;
    double one, h1, h2;
  };
  for (const Row& row :
       std::vector<Row>{{24, {18.522, 18.086, 9.337, 0.601}, .2431, .1585, .1083},
                        {32, {18.513, 18.086, 9.331, 0.626}, .1985, .1242, .0837},
                        {64, {18.546, 18.097, 9.321, 0.762}, .1240, .0674, .0444},
                        {24, {29.718, 29.444, 19.927, 0.527}, .2347, .1323, .0698},
                        {32, {29.802, 29.428, 19.530, 0.577}, .1898, .1045, .0559},
                        {64, {29.935, 29.621, 19.388, 0.535}, .1091, .0554, .0294}}) {
    SCOPED_TRACE(absl::StrCat(row.m, " micro-batches, forward ", row.times.forward));
    PipelineShape shape{8, 1, row.m};
    EXPECT_NEAR(OutcomeOf("1f1b", shape, row.times).figures.bubble_rate, row.one, 0.00005);
    EXPECT_NEAR(OutcomeOf("zb-h1", shape, row.times).figures.bubble_rate, row.h1, 0.00005);
    EXPECT_NEAR(OutcomeOf("zb-h2", shape, row.times).figures.bubble_rate, row.h2, 0.00005);
  }
}

TEST(SchedulesTest, FormulasOfOneChunk) {
  std::mt19937 random(TestSeed());
  auto draw = [&random] { return 0.25 + 0.25 * static_cast<double>(random() % 12); };
  for (int p : {1, 2, 3, 4, 7, 8}) {
    for (int m : {1, p - 1, p, p + 2, 2 * p, 3 * p}) {
      if (m < 1) continue;
      StageCosts times{draw(), draw(), draw()};
      double f = times.forward, b = times.backward_input, w = times.backward_weight;
      SCOPED_TRACE(absl::StrCat(p, " stages, ", m, " micro-batches, ", f, " ", b, " ", w));
      PipelineShape shape{p, 1, m};
      for (const char* name : {"gpipe", "1f1b"}) {
        EXPECT_NEAR(OutcomeOf(name, shape, times).figures.span, (m + p - 1) * (f + b + w),
                    kRounding);
      }
      std::vector<double> kept = OutcomeOf("1f1b", shape, times).figures.peak_activations;
      for (int stage = 0; stage < p; ++stage) EXPECT_EQ(kept[stage], std::min(m, p - stage));
      EXPECT_EQ(OutcomeOf("zb-h1", shape, times).peak, std::min(m, p));
      EXPECT_EQ(OutcomeOf("zb-h2", shape, times).peak, std::min(m, 2 * p - 1));
      // Few micro-batches: the way through the stages is all there is.
      if (m > p) continue;
      double way = (m + p - 1) * (f + b) + w;
      if (w <= std::min(f, b)) {
        EXPECT_NEAR(OutcomeOf("zb-h2", shape, times).figures.span, way, kRounding);
      }
    }
  }
}

TEST(SchedulesTest, FormulasOfZeroBubbleSchedules) {
  for (int p : {2, 3, 4, 6, 8}) {
    for (int m : {2 * p, 3 * p + 1}) {
      for (double scale : {1.0, 2.5}) {
        StageCosts times{scale, scale, scale};
        double work = 3 * m * scale;
        EXPECT_NEAR(OutcomeOf("zb-h1", {p, 1, m}, times).figures.span, work + (p - 1) * scale,
                    kRounding);
        EXPECT_NEAR(OutcomeOf("zb-h2", {p, 1, m}, times).figures.span, work, kRounding);
      }
    }
  }
}

TEST(SchedulesTest, FormulasOfSeveralChunks) {
  EXPECT_NEAR(OutcomeOf("interleaved", {4, 2, 8}).figures.span, 28.5, kRounding);
  EXPECT_NEAR(OutcomeOf("interleaved", {8, 2, 16}).figures.span, 58.5, kRounding);
  EXPECT_NEAR(OutcomeOf("interleaved", {8, 4, 32}).figures.span, 101.25, kRounding);
  EXPECT_EQ(OutcomeOf("interleaved", {4, 2, 8}).figures.peak_activations[0], 5.5);
  EXPECT_EQ(OutcomeOf("interleaved", {8, 2, 16}).figures.peak_activations[0], 11.5);
  EXPECT_EQ(OutcomeOf("interleaved", {8, 4, 32}).figures.peak_activations[0], 9.75);
  for (int p : {2, 3, 4, 8}) {
    for (int v : {2, 3, 4}) {
      for (int groups : {1, 2, 3, 4}) {
        int m = p * groups;
        for (const StageCosts& times :
             {StageCosts{18.522, 18.086, 9.337, 0.601}, StageCosts{29.935, 29.621, 19.388, 0.535},
              StageCosts{1, 1, 1, 0}}) {
          SCOPED_TRACE(absl::StrCat(p, " stages, ", v, " chunks, ", m, " micro-batches, forward ",
                                    times.forward));
          double work = times.forward + times.backward_input + times.backward_weight;
          double bubble = (p - 1) * work / v;
          // Megatron's order, a message on each hop.
          double sent = 2.0 * (p * v - 1) * times.communication;
          EXPECT_NEAR(OutcomeOf("interleaved", {p, v, m}, times).figures.span,
                      m * work + bubble + sent, kRounding);
          StageCosts quiet = times;
          quiet.communication = 0;
          Outcome looped = OutcomeOf("looped", {p, v, m}, quiet);
          EXPECT_NEAR(looped.figures.span, m * work + bubble, kRounding);
          EXPECT_NEAR(looped.peak, m, kRounding);
        }
      }
    }
  }
}

TEST(SchedulesTest, UndefinedShapesAreRefusedWithTheNearest) {
  auto refusal = [](absl::string_view name, const PipelineShape& shape) {
    absl::StatusOr<const Schedule*> schedule = FindSchedule(name);
    absl::Status status =
        Simulate(**schedule, {.shape = shape, .costs = UniformCosts(shape, StageCosts())}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal("interleaved", {4, 2, 10}), HasSubstr("use micro_batches=8 or 12"));
  EXPECT_THAT(refusal("interleaved", {4, 2, 3}), HasSubstr("use micro_batches=4"));
  EXPECT_THAT(refusal("interleaved", {4, 1, 8}), HasSubstr("use chunks=2, or 1f1b"));
  EXPECT_THAT(refusal("gpipe", {4, 2, 8}), HasSubstr("use chunks=1, or looped or interleaved"));
  EXPECT_THAT(refusal("1f1b", {4, 3, 8}), HasSubstr("use chunks=1, or interleaved"));
  EXPECT_THAT(refusal("zb-h1", {4, 2, 8}), HasSubstr("use chunks=1, or zb-v"));
  EXPECT_THAT(refusal("zb-h2", {4, 2, 8}), HasSubstr("use chunks=1, or zb-v"));
  for (const char* name : {"zb-v", "v-half", "v-min"}) {
    EXPECT_THAT(refusal(name, {4, 3, 8}), HasSubstr("has 2 chunks a stage, not 3: use chunks=2"));
  }
  EXPECT_THAT(std::string(FindSchedule("zb-h3").status().message()),
              HasSubstr("(did you mean zb-h1?); there are gpipe, 1f1b, "));
}

// What holds for every order: each action once, after its data, one at a time on a stage, lanes
// in micro-batch order.
void CheckOrder(const Timeline& timeline, const PipelineCosts& costs) {
  PipelineActions actions = timeline.actions();
  std::vector<double> start(actions.size(), -1), end(actions.size(), -1);
  std::vector<int> next(actions.size() / timeline.shape.micro_batches, 0);  // by lane
  for (size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    double free = 0;
    for (const TimedAction& timed : timeline.stages[stage]) {
      int index = actions.Index(timed.action);
      EXPECT_EQ(timed.action.stage, static_cast<int>(stage));
      EXPECT_EQ(end[index], -1) << "twice: " << ToString(timed.action);
      EXPECT_EQ(timed.action.micro_batch, next[actions.LaneAt(index)]++);
      EXPECT_GE(timed.start, free);
      start[index] = timed.start;
      free = end[index] = timed.end;
      EXPECT_NEAR(timed.end - timed.start, DurationOf(actions, costs, index), kRounding);
    }
  }
  for (int a = 0; a < actions.size(); ++a) {
    ASSERT_GE(end[a], 0) << "never: " << ToString(actions.At(a));
    if (int source = actions.SourceOf(a); source >= 0) {
      EXPECT_GE(start[a], end[source] + DelayOf(actions, costs, source, a));
    }
  }
}

PipelineCosts RandomCosts(const PipelineShape& shape, std::mt19937& random) {
  PipelineCosts costs;
  auto draw = [&random] { return static_cast<double>(random() % 1000) / 100; };
  for (int part = 0; part < shape.parts(); ++part) {
    costs.parts.push_back({draw(), draw(), draw(), 1.0 / shape.chunks, 1.0 / shape.chunks});
  }
  costs.communication = random() % 2 == 0 ? 0 : draw();
  return costs;
}

TEST(SchedulesTest, OrdersAreValidKeepTheirBoundsAndDoNotDependOnTimes) {
  std::mt19937 random(TestSeed());
  for (const Schedule& schedule : FixedSchedules()) {
    int ran = 0;
    for (int round = 0; round < 40; ++round) {
      ScheduleInput input;
      input.shape = {1 + static_cast<int>(random() % 6), 1 + static_cast<int>(random() % 3),
                     1 + static_cast<int>(random() % 14)};
      if (round % 2 == 0) input.shape.chunks = schedule.default_chunks;
      SCOPED_TRACE(absl::StrCat(schedule.name, ", ", ToString(input.shape)));
      input.costs = RandomCosts(input.shape, random);
      absl::StatusOr<Timeline> timeline = Simulate(schedule, input);
      if (!timeline.ok()) {
        EXPECT_EQ(timeline.status().code(), absl::StatusCode::kInvalidArgument);
        continue;
      }
      ++ran;
      CheckOrder(*timeline, input.costs);
      ASSERT_OK_AND_ASSIGN(Rules rules, schedule.rules(input));
      std::vector<double> peak = Measure(*timeline, input.costs).peak_activations;
      for (size_t stage = 0; stage < peak.size(); ++stage) {
        EXPECT_LE(peak[stage], rules.memory_bound[stage] + kRounding) << "stage " << stage;
      }
      EXPECT_NEAR(*std::max_element(peak.begin(), peak.end()),
                  *std::max_element(rules.memory_bound.begin(), rules.memory_bound.end()),
                  kRounding);
      input.costs = RandomCosts(input.shape, random);
      ASSERT_OK_AND_ASSIGN(Timeline other, Simulate(schedule, input));
      EXPECT_EQ(other.orders(), timeline->orders());
    }
    EXPECT_GE(ran, 10) << schedule.name;
  }
}

}  // namespace
}  // namespace colossus
