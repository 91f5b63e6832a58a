#include "tests/layouts/compare.h"

#include <algorithm>
#include <cmath>

#include "base/testing/tensor_near.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

double Norm(const std::vector<double>& values) {
  double sum = 0;
  for (double x : values) sum += x * x;
  return std::sqrt(sum);
}

void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected,
                const Tolerance& tolerance, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(TensorNear(std::vector<double>{actual[i]}, std::vector<double>{expected[i]},
                           {.relative_to_max = tolerance.relative}))
        << what << " of update " << i + 1;
  }
}

double MostDifference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

}  // namespace

void ExpectEqual(const LayoutResult& actual, const LayoutResult& expected,
                 const Tolerance& tolerance) {
  ExpectNear(actual.losses, expected.losses, tolerance, "loss");
  ExpectNear(actual.norms, expected.norms, tolerance, "gradient norm");
  EXPECT_EQ(actual.skipped, expected.skipped);
  double largest = 0;
  for (const auto& [name, values] : expected.gradients) largest = std::max(largest, Norm(values));
  const Limit limit{.absolute = tolerance.floor * largest, .relative_l2 = tolerance.relative};
  EXPECT_EQ(actual.gradients.size(), expected.gradients.size());
  for (const auto& [name, values] : expected.gradients) {
    auto found = actual.gradients.find(name);
    ASSERT_TRUE(found != actual.gradients.end()) << name;
    EXPECT_TRUE(TensorNear(found->second, values, limit)) << name;
  }
  if (!tolerance.states) return;
  EXPECT_EQ(actual.states.size(), expected.states.size());
  for (const auto& [name, value] : expected.states) {
    auto found = actual.states.find(name);
    ASSERT_TRUE(found != actual.states.end()) << name;
    EXPECT_TRUE(TensorNear(found->second.ToDoubles(), value.ToDoubles(), limit)) << name;
  }
}

void ExpectNearLosses(const LayoutResult& actual, const LayoutResult& one_rank,
                      const LayoutResult& exact) {
  EXPECT_EQ(actual.skipped, one_rank.skipped);
  EXPECT_LE(MostDifference(actual.losses, one_rank.losses),
            std::max(1e-3, 3 * MostDifference(one_rank.losses, exact.losses)));
}

void ExpectSameBits(const LayoutResult& actual, const LayoutResult& expected) {
  EXPECT_EQ(actual.losses, expected.losses);
  EXPECT_EQ(actual.norms, expected.norms);
  EXPECT_EQ(actual.skipped, expected.skipped);
  EXPECT_EQ(actual.gradients.size(), expected.gradients.size());
  for (const auto& [name, values] : expected.gradients) {
    EXPECT_EQ(actual.gradients.at(name), values) << name;
  }
  EXPECT_EQ(actual.states.size(), expected.states.size());
  for (const auto& [name, value] : expected.states) {
    EXPECT_TRUE(actual.states.at(name) == value) << name;
  }
}

}  // namespace colossus
