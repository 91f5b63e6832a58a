#include "trainers/lib/answer/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "base/status.h"

namespace colossus {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

absl::Status CheckLogits(absl::Span<const double> logits, int64_t position) {
  bool any = false;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (!(logits[id] < kInfinity)) {
      return absl::InternalError(absl::StrCat("the logit of id ", id, " for position ", position,
                                              " is ", logits[id],
                                              ": the model's weights or arithmetic overflow"));
    }
    any = any || logits[id] > -kInfinity;
  }
  if (any) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("no id has a logit above -infinity for position ", position));
}

// The first `count` ids in the order of the definition.
std::vector<int32_t> LikeliestIds(absl::Span<const double> logits, int64_t count) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::partial_sort(ids.begin(), ids.begin() + count, ids.end(), [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  ids.resize(count);
  return ids;
}

// 53 random bits as a multiple of 2^-53.
double Uniform(const SamplingPlace& place) {
  static const uint64_t site = SiteId("generate.sample");
  const PhiloxBlock bits =
      RandomQuad({.seed = place.seed, .update = static_cast<uint64_t>(place.position)}, site,
                 static_cast<uint64_t>(place.row));
  const uint64_t joined = (uint64_t{bits[0]} << 32) | bits[1];
  return static_cast<double>(joined >> 11) * 0x1p-53;
}

}  // namespace

absl::StatusOr<int32_t> SampleId(absl::Span<const double> logits, const SamplingOptions& options,
                                 const SamplingPlace& place) {
  CHECK(!logits.empty() && options.temperature >= 0 && options.top_k >= 0);
  CHECK(options.top_p >= 0 && options.top_p <= 1);
  RETURN_IF_ERROR(CheckLogits(logits, place.position));
  const auto largest = std::max_element(logits.begin(), logits.end());  // the first of equals
  if (options.temperature == 0) return static_cast<int32_t>(largest - logits.begin());

  const int64_t size = static_cast<int64_t>(logits.size());
  std::vector<int32_t> ids =
      LikeliestIds(logits, options.top_k == 0 ? size : std::min(options.top_k, size));
  std::vector<double> sums;  // running sums of the weights
  double sum = 0;
  for (int32_t id : ids) {
    sum += std::exp((logits[id] - *largest) / options.temperature);
    sums.push_back(sum);
  }
  // The sums never decrease, so both cuts are searches.
  const auto last = std::lower_bound(sums.begin(), sums.end(), options.top_p * sum);
  CHECK(last != sums.end());
  // u < 1 and the product is rounded to nearest, so it may reach the last sum but not pass it.
  const auto taken = std::upper_bound(sums.begin(), last, Uniform(place) * *last);
  return ids[taken - sums.begin()];
}

}  // namespace colossus
