#include "base/testing/tensor_near.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

using ::testing::HasSubstr;
using Values = std::vector<double>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Case {
  const char* name;
  Values actual, expected;
  Limit limit;
  bool ok;
};

TEST(TensorNear, PassesExactlyWhenTheErrorIsWithinTheLimit) {
  const Case cases[] = {
      {"equal", {1, -2, 0}, {1, -2, -0.0}, {}, true},
      {"any difference without a limit", {1, 2}, {1, std::nextafter(2, 3)}, {}, false},
      {"both empty", {}, {}, {}, true},
      {"both empty, l2", {}, {}, {.relative_l2 = 0.1}, true},
      {"absolute, at the limit", {1.5}, {1}, {.absolute = 0.5}, true},
      {"absolute, beyond", {1.5}, {1}, {.absolute = 0.4999}, false},
      {"relative to the largest, not to the element", {1, 108}, {0, 100}, {.relative_to_max = .08},
       true},
      {"relative to the largest, beyond", {1, 109}, {0, 100}, {.relative_to_max = .08}, false},
      {"relative to the largest magnitude", {-104}, {-100}, {.relative_to_max = .05}, true},
      {"relative to expected, not to actual", {1e6}, {1}, {.relative_to_max = .5}, false},
      {"l2, 5 of 50", {33, 44}, {30, 40}, {.relative_l2 = 0.1}, true},
      {"l2, beyond", {33, 44.1}, {30, 40}, {.relative_l2 = 0.1}, false},
      {"l2 within, largest beyond", {1, 10, 10, 10}, {0, 10, 10, 10},
       {.relative_to_max = .09, .relative_l2 = .06}, false},
      {"largest within, l2 beyond", {1, 11, 9, 11}, {0, 10, 10, 10},
       {.relative_to_max = .11, .relative_l2 = .06}, false},
      {"both within", {1, 11, 9, 11}, {0, 10, 10, 10},
       {.relative_to_max = .11, .relative_l2 = .12}, true},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(bool{TensorNear(c.actual, c.expected, c.limit)}, c.ok)
        << c.name << ": " << TensorNear(c.actual, c.expected, c.limit).message();
  }
}

TEST(TensorNear, ZeroReferencesNeedAnAbsoluteLimit) {
  EXPECT_TRUE(TensorNear(Values{0, 0}, Values{0, 0}, {.relative_to_max = 1e-5}));
  EXPECT_TRUE(TensorNear(Values{0, 0}, Values{0, 0}, {.relative_l2 = 1e-5}));
  for (const Limit& limit : {Limit{.relative_to_max = 0.5}, Limit{.relative_l2 = 0.5}}) {
    const auto result = TensorNear(Values{0, 1e-30}, Values{0, 0}, limit);
    EXPECT_FALSE(result);
    EXPECT_THAT(result.message(), HasSubstr("only Limit.absolute can allow an error"));
  }
  EXPECT_TRUE(TensorNear(Values{1e-9}, Values{0}, {.absolute = 1e-8, .relative_l2 = 1e-5}));
  EXPECT_TRUE(TensorNear(Values{1e-9}, Values{0}, {.absolute = 1e-8, .relative_to_max = 1e-5}));
  EXPECT_FALSE(TensorNear(Values{1e-7}, Values{0}, {.absolute = 1e-8, .relative_l2 = 1e-5}));
}

TEST(TensorNear, NonFiniteValuesFailWhateverTheLimit) {
  const Limit limits[] = {{.absolute = 1e300},
                          {.absolute = kInf},
                          {.relative_to_max = 1},
                          {.relative_l2 = 1},
                          {.absolute = 1e300, .relative_to_max = 1, .relative_l2 = 1}};
  const Values bad[] = {{1, kNan, 3}, {1, kInf, 3}, {1, -kInf, 3}, {kNan, 2, 3}, {1, 2, kNan}};
  const Values good = {1, 2, 3};
  for (const Limit& limit : limits) {
    for (const Values& values : bad) {
      EXPECT_FALSE(TensorNear(values, good, limit)) << "non-finite actual";
      EXPECT_FALSE(TensorNear(good, values, limit)) << "non-finite expected";
      EXPECT_FALSE(TensorNear(values, values, limit)) << "non-finite on both sides";
    }
  }
}

TEST(TensorNear, LimitsThatAreNoLimitsPassNothing) {
  const Values values = {1, 2};
  const Limit limits[] = {{.absolute = kInf}, {.absolute = kNan}, {.relative_to_max = kNan},
                          {.relative_to_max = kInf}, {.relative_l2 = kNan}, {.absolute = -1}};
  for (const Limit& limit : limits) {
    EXPECT_FALSE(TensorNear(values, Values{1, 3}, limit))
        << limit.absolute << " " << limit.relative_to_max << " " << limit.relative_l2;
  }
}

TEST(TensorNear, LengthsMustAgree) {
  const auto result = TensorNear(Values{1, 2}, Values{1, 2, 3}, {.absolute = 100});
  EXPECT_FALSE(result);
  EXPECT_STREQ(result.message(), "actual has 2 elements, expected has 3");
  EXPECT_FALSE(TensorNear(Values{}, Values{1}, {.absolute = 100}));
  EXPECT_FALSE(TensorNear(Values{1}, Values{}, {.absolute = 100}));
}

TEST(TensorNear, ReportsTheWorstElement) {
  NearReport report = CompareTensors(Values{1, 5, 3, 9}, Values{1, 2, 3, 8}, {.absolute = 1});
  EXPECT_FALSE(report.ok);
  EXPECT_EQ(report.worst_index, 1);
  EXPECT_EQ(report.error, 3);
  EXPECT_EQ(report.limit, 1);
  EXPECT_EQ(report.actual, 5);
  EXPECT_EQ(report.expected, 2);
  EXPECT_THAT(report.text, HasSubstr("error 3 is not <= limit 1; worst of 4 elements at 1"));
  report = CompareTensors(Values{9, 1, kNan, kInf}, Values{1, 1, 1, 1}, {.absolute = 1});
  EXPECT_EQ(report.worst_index, 2) << "the first non-finite element, not the largest error";
  EXPECT_TRUE(std::isnan(report.error));
  EXPECT_EQ(CompareTensors({}, {}, {}).worst_index, -1);
}

TEST(TensorNear, TakesFloats) {
  const std::vector<float> actual = {0.1f, 1.0f};
  EXPECT_TRUE(TensorNear(actual, std::vector<float>{0.1f, 1.0f}, {}));
  EXPECT_FALSE(TensorNear(actual, std::vector<float>{0.1f, 2.0f}, {.absolute = 0.5}));
  // 0.1f is within half a unit in its last place, 2^-28, of 0.1.
  EXPECT_TRUE(TensorNear(actual, Values{0.1, 1}, {.absolute = 0x1p-28}));
  EXPECT_FALSE(TensorNear(actual, Values{0.1, 1}, {}));
}

TEST(BitEqual, ComparesBitsAndNamesTheFirstDifference) {
  const std::vector<float> values = {1.0f, NAN, 0.0f};
  EXPECT_TRUE(BitEqual<float>(values, values));
  const auto result = BitEqual<float>(values, std::vector<float>{1.0f, NAN, -0.0f});
  EXPECT_FALSE(result);
  EXPECT_STREQ(
      result.message(),
      "1 of 3 elements differ in bits, first at 2: actual 0x00000000, expected 0x80000000");
  EXPECT_FALSE(BitEqual<float>(values, std::vector<float>{1.0f, NAN}));
  EXPECT_FALSE(BitEqual<int16_t>(std::vector<int16_t>{1}, std::vector<int16_t>{2}));
  EXPECT_TRUE(BitEqual<double>({}, {}));
}

}  // namespace
}  // namespace colossus
