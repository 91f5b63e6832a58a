#include "base/testing/tensor_near.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace colossus {
namespace {

struct Sums {
  double max_error = 0, max_expected = 0, error_squares = 0, expected_squares = 0;
};

// Fills the report's worst element; NaN and infinity go through to the sums.
Sums Accumulate(std::span<const double> actual, std::span<const double> expected,
                NearReport& report) {
  Sums sums;
  bool finite = true;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double error = std::fabs(actual[i] - expected[i]);
    // Not `error > max`: that is false for NaN, which would then be skipped.
    const bool worse = finite && !(error <= sums.max_error);
    if (worse || report.worst_index < 0) {
      report.worst_index = static_cast<int64_t>(i);
      report.actual = actual[i];
      report.expected = expected[i];
      sums.max_error = error;
    }
    finite = finite && std::isfinite(error);
    sums.max_expected = std::max(sums.max_expected, std::fabs(expected[i]));
    sums.error_squares += error * error;
    sums.expected_squares += expected[i] * expected[i];
  }
  return sums;
}

bool Passes(double error, double limit) { return std::isfinite(limit) && error <= limit; }

// Keeps the criterion that is nearest to failing; once one has failed it stays.
void Apply(double error, double limit, NearReport& report, bool first) {
  const bool ok = Passes(error, limit);
  const bool nearer = ok && report.ok && error * report.limit > report.error * limit;
  if (first || (!ok && report.ok) || nearer) {
    report.error = error;
    report.limit = limit;
  }
  report.ok = first ? ok : report.ok && ok;
}

std::string Describe(const NearReport& report, size_t size, const Limit& limit,
                     double max_expected) {
  std::string text = absl::StrFormat(
      "error %.6g %s limit %.6g; worst of %d elements at %d: actual %.9g, expected %.9g",
      report.error, report.ok ? "<=" : "is not <=", report.limit, size, report.worst_index,
      report.actual, report.expected);
  if (!report.ok && max_expected == 0 && limit.absolute == 0) {
    absl::StrAppend(&text, " (all expected values are 0: only Limit.absolute can allow an error)");
  }
  return text;
}

std::vector<double> Widen(std::span<const float> values) {
  return std::vector<double>(values.begin(), values.end());
}

}  // namespace

NearReport CompareTensors(std::span<const double> actual, std::span<const double> expected,
                          const Limit& limit) {
  NearReport report;
  if (actual.size() != expected.size()) {
    report.error = std::nan("");
    report.text = absl::StrFormat("actual has %d elements, expected has %d", actual.size(),
                                  expected.size());
    return report;
  }
  const Sums sums = Accumulate(actual, expected, report);
  const double absolute = limit.absolute;
  // A NaN limit passes nothing: std::max would drop a NaN in its second argument.
  const auto floor = [absolute](double relative) {
    return std::isnan(relative) ? relative : std::max(absolute, relative);
  };
  const bool use_l2 = limit.relative_l2 != 0;
  const bool use_max = limit.relative_to_max != 0 || !use_l2;
  if (use_max) {
    Apply(sums.max_error, floor(limit.relative_to_max * sums.max_expected), report, true);
  }
  if (use_l2) {
    Apply(std::sqrt(sums.error_squares),
          floor(limit.relative_l2 * std::sqrt(sums.expected_squares)), report, !use_max);
  }
  report.text = Describe(report, actual.size(), limit, sums.max_expected);
  return report;
}

::testing::AssertionResult TensorNear(std::span<const double> actual,
                                      std::span<const double> expected, const Limit& limit) {
  const NearReport report = CompareTensors(actual, expected, limit);
  return (report.ok ? ::testing::AssertionSuccess() : ::testing::AssertionFailure()) << report.text;
}

::testing::AssertionResult TensorNear(std::span<const float> actual,
                                      std::span<const double> expected, const Limit& limit) {
  return TensorNear(Widen(actual), expected, limit);
}

::testing::AssertionResult TensorNear(std::span<const float> actual,
                                      std::span<const float> expected, const Limit& limit) {
  return TensorNear(Widen(actual), Widen(expected), limit);
}

namespace internal {

::testing::AssertionResult BytesEqual(const void* actual, int64_t actual_count,
                                      const void* expected, int64_t expected_count,
                                      int64_t element_bytes) {
  if (actual_count != expected_count) {
    return ::testing::AssertionFailure() << "actual has " << actual_count
                                         << " elements, expected has " << expected_count;
  }
  const auto* a = static_cast<const unsigned char*>(actual);
  const auto* e = static_cast<const unsigned char*>(expected);
  const auto hex = [&](const unsigned char* data, int64_t i) {
    std::string text = "0x";
    for (int64_t b = element_bytes - 1; b >= 0; --b) {
      absl::StrAppendFormat(&text, "%02x", data[i * element_bytes + b]);
    }
    return text;
  };
  int64_t different = 0, first = -1;
  for (int64_t i = 0; i < actual_count; ++i) {
    if (std::memcmp(a + i * element_bytes, e + i * element_bytes, element_bytes) == 0) continue;
    if (different++ == 0) first = i;
  }
  if (different == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << different << " of " << actual_count << " elements differ in bits, first at " << first
         << ": actual " << hex(a, first) << ", expected " << hex(e, first);
}

}  // namespace internal
}  // namespace colossus
