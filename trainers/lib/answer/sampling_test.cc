#include "trainers/lib/answer/sampling.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "base/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

int32_t Sample(const std::vector<double>& logits, const SamplingOptions& options,
               const SamplingPlace& place = {}) {
  absl::StatusOr<int32_t> id = SampleId(logits, options, place);
  EXPECT_OK(id.status());
  return id.ok() ? *id : -1;
}

// Times each id came in `draws` draws at positions 0, 1 ...
std::map<int32_t, int> Count(const std::vector<double>& logits, const SamplingOptions& options,
                             int draws) {
  std::map<int32_t, int> counts;
  for (int i = 0; i < draws; ++i) ++counts[Sample(logits, options, {.seed = 3, .position = i})];
  return counts;
}

std::set<int32_t> Seen(const std::vector<double>& logits, const SamplingOptions& options) {
  std::set<int32_t> seen;
  for (const auto& item : Count(logits, options, 2000)) seen.insert(item.first);
  return seen;
}

TEST(SampleId, GreedyTakesTheSmallestIdOfTheLargestLogits) {
  EXPECT_EQ(Sample({1, 5, 2, 5}, {.temperature = 0}), 1);
  EXPECT_EQ(Sample({-kInfinity, -3}, {.temperature = 0}), 1);
  EXPECT_EQ(Sample({7}, {.temperature = 0}), 0);
}

TEST(SampleId, FollowsTheProbabilities) {
  // Probabilities 0.1, 0.2, 0.7; 4 standard deviations of a binomial of 20000 draws.
  const std::vector<double> p = {0.1, 0.2, 0.7};
  constexpr int kDraws = 20000;
  std::map<int32_t, int> counts =
      Count({std::log(0.1), std::log(0.2), std::log(0.7)}, {}, kDraws);
  for (int32_t id = 0; id < 3; ++id) {
    const double deviation = std::sqrt(kDraws * p[id] * (1 - p[id]));
    EXPECT_LE(std::fabs(counts[id] - kDraws * p[id]), 4 * deviation) << "id " << id;
  }
}

TEST(SampleId, TemperatureSharpensAndFlattens) {
  const std::vector<double> logits = {0, 1, 2};
  const int cold = Count(logits, {.temperature = 0.5}, 5000)[2];
  const int warm = Count(logits, {.temperature = 1}, 5000)[2];
  const int hot = Count(logits, {.temperature = 5}, 5000)[2];
  EXPECT_GT(cold, warm);
  EXPECT_GT(warm, hot);
  EXPECT_EQ(Seen(logits, {.temperature = 1e-300}), std::set<int32_t>({2}));
}

TEST(SampleId, CutsTheOrder) {
  // Weights 0.4, 0.3, 0.2, 0.1 of ids 2, 0, 3, 1.
  const std::vector<double> logits = {std::log(0.3), std::log(0.1), std::log(0.4), std::log(0.2)};
  const struct {
    SamplingOptions options;
    std::set<int32_t> seen;
  } cases[] = {
      {{}, {0, 1, 2, 3}},
      {{.top_k = 1}, {2}},
      {{.top_k = 3}, {0, 2, 3}},
      {{.top_k = 400}, {0, 1, 2, 3}},
      {{.top_p = 0}, {2}},
      {{.top_p = 0.39}, {2}},
      {{.top_p = 0.69}, {0, 2}},
      {{.top_p = 0.75}, {0, 2, 3}},
      // Of the 0.7 that the first two have, the first has 0.57.
      {{.top_k = 2, .top_p = 0.5}, {2}},
      {{.top_k = 2, .top_p = 0.6}, {0, 2}},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Seen(logits, c.options), c.seen)
        << "top_k " << c.options.top_k << ", top_p " << c.options.top_p;
  }
}

TEST(SampleId, EqualLogitsAreOrderedById) {
  EXPECT_EQ(Seen({1, 1, 1, 1}, {.top_k = 2}), std::set<int32_t>({0, 1}));
  EXPECT_EQ(Seen({1, 1, 1, 1}, {.top_p = 0.75}), std::set<int32_t>({0, 1, 2}));
  EXPECT_EQ(Seen({1, 1, 1, 1}, {.top_p = 0.76}), std::set<int32_t>({0, 1, 2, 3}));
}

TEST(SampleId, DependsOnSeedPositionAndRowAlone) {
  const std::vector<double> logits(1000, 0.0);
  const int32_t id = Sample(logits, {}, {.seed = 1, .position = 2, .row = 3});
  EXPECT_EQ(Sample(logits, {}, {.seed = 1, .position = 2, .row = 3}), id);
  EXPECT_NE(Sample(logits, {}, {.seed = 2, .position = 2, .row = 3}), id);
  EXPECT_NE(Sample(logits, {}, {.seed = 1, .position = 3, .row = 3}), id);
  EXPECT_NE(Sample(logits, {}, {.seed = 1, .position = 2, .row = 4}), id);
}

TEST(SampleId, NeverTakesAnImpossibleId) {
  EXPECT_EQ(Seen({-kInfinity, 0, -kInfinity, 1}, {}), std::set<int32_t>({1, 3}));
}

TEST(SampleId, RefusesLogitsThatAreNoNumbers) {
  const double nan = std::nan("");
  for (double temperature : {0.0, 1.0}) {
    for (const std::vector<double>& logits : std::vector<std::vector<double>>{
             {0, nan}, {kInfinity, 0}, {-kInfinity, -kInfinity}}) {
      EXPECT_EQ(SampleId(logits, {.temperature = temperature}, {}).status().code(),
                absl::StatusCode::kInternal);
    }
  }
}

}  // namespace
}  // namespace colossus
