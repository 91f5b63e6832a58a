#include "trainers/lib/report/profile_report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "nlohmann/json.hpp"
#include "trainers/lib/report/flops.h"

namespace colossus {
namespace {

constexpr int64_t kWarmUp = 2;
constexpr int64_t kMostUpdates = 10;
constexpr size_t kMostCalls = 24;  // rows of the table by call; JSON has all

// The mean of one update.
struct Means {
  double seconds, data, instructions;
  double other() const { return seconds - data - instructions; }
};

Means MeansOf(const Profile& profile, const ProfileFigures& figures) {
  CHECK_GE(figures.updates, 1);
  const double n = static_cast<double>(figures.updates);
  return {figures.sums.seconds / n, figures.sums.data_seconds / n, profile.seconds() / n};
}

double TokensPerSecond(const ProfileFigures& figures, double seconds) {
  return seconds > 0 ? static_cast<double>(figures.tokens_per_update) / seconds : 0;
}

// "   830.2", or as many spaces where there is no rate.
std::string Rate(double amount, double seconds) {
  if (amount <= 0 || seconds <= 0) return absl::StrFormat("%9s", "");
  return absl::StrFormat("%9.1f", amount / seconds / 1e9);
}

std::string PeakShare(const Profile::Sum& sum, double peak) {
  if (sum.flops <= 0 || sum.seconds <= 0 || peak <= 0) return absl::StrFormat("%7s", "");
  return absl::StrFormat("%6.1f%%", 100 * sum.flops / sum.seconds / peak);
}

void AddTable(absl::string_view title, const Profile::Sums& sums, size_t most,
              const ProfileFigures& figures, std::vector<std::string>& lines) {
  const double n = static_cast<double>(figures.updates);
  lines.push_back(absl::StrFormat("%10s %6s %8s %9s %7s %9s  %s", "ms", "share", "calls",
                                  "Gflop/s", "of peak", "GB/s", title));
  const auto rows = LongestFirst(sums);
  for (size_t i = 0; i < std::min(most, rows.size()); ++i) {
    const auto& [name, sum] = rows[i];
    const double share = figures.sums.seconds > 0 ? sum.seconds / figures.sums.seconds : 0;
    lines.push_back(absl::StrFormat(
        "%10.3f %5.1f%% %8.4g %s %s %s  %s", 1e3 * sum.seconds / n, 100 * share,
        static_cast<double>(sum.count) / n, Rate(sum.flops, sum.seconds),
        PeakShare(sum, figures.peak_flops_per_second), Rate(sum.bytes, sum.seconds), name));
  }
  if (rows.size() > most) {
    lines.push_back(absl::StrFormat("%10s and %d more", "", rows.size() - most));
  }
}

nlohmann::ordered_json ListOf(const Profile::Sums& sums, int64_t updates) {
  const double n = static_cast<double>(updates);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [name, sum] : LongestFirst(sums)) {
    list.push_back({{"name", name},
                    {"seconds", sum.seconds / n},
                    {"calls", static_cast<double>(sum.count) / n},
                    {"flops", sum.flops / n},
                    {"bytes", sum.bytes / n}});
  }
  return list;
}

}  // namespace

UpdateProfiler::UpdateProfiler(Program& program, int64_t updates)
    : profile_(program), warm_up_(std::clamp<int64_t>(updates - 1, 0, kWarmUp)) {}

bool UpdateProfiler::Profiled(int64_t update) const {
  return update >= warm_up_ && update < warm_up_ + kMostUpdates;
}

void UpdateProfiler::Done(const UpdateSeconds& seconds) {
  if (Profiled(seen_++)) {
    ++updates_;
    sums_.seconds += seconds.seconds;
    sums_.data_seconds += seconds.data_seconds;
  }
}

double AccountedShare(const Profile& profile, const ProfileFigures& figures) {
  return figures.sums.seconds > 0 ? profile.seconds() / figures.sums.seconds : 1;
}

std::vector<std::string> ProfileLines(const Profile& profile, const ProfileFigures& figures) {
  const Means means = MeansOf(profile, figures);
  std::vector<std::string> lines;
  lines.push_back(absl::StrFormat(
      "profile: mean of %d updates after %d of warm-up; %d threads; flops and bytes are those of "
      "an ideal kernel; peak %.1f Gflop/s",
      figures.updates, figures.warm_up, figures.threads, figures.peak_flops_per_second / 1e9));
  AddTable("op", profile.by_op(), profile.by_op().size(), figures, lines);
  AddTable("block", profile.by_block(), profile.by_block().size(), figures, lines);
  AddTable("call", profile.by_call(), kMostCalls, figures, lines);
  lines.push_back(absl::StrFormat(
      "accounted: %.1f %% of the %.3f ms of an update; the rest: %.3f ms making rows and feeds, "
      "%.3f ms between instructions and phases",
      100 * AccountedShare(profile, figures), 1e3 * means.seconds, 1e3 * means.data,
      1e3 * means.other()));
  const double tokens_per_second = TokensPerSecond(figures, means.seconds);
  lines.push_back(absl::StrFormat(
      "utilisation: %.1f %% of the matmul peak: %.1f tokens/s x %.4g flop a token",
      100 * Utilization(figures.flops_per_token, tokens_per_second,
                        figures.peak_flops_per_second),
      tokens_per_second, figures.flops_per_token));
  return lines;
}

std::string ProfileJson(const Profile& profile, const ProfileFigures& figures) {
  const Means means = MeansOf(profile, figures);
  const double tokens_per_second = TokensPerSecond(figures, means.seconds);
  nlohmann::ordered_json json = {
      {"updates", figures.updates},
      {"warm_up_updates", figures.warm_up},
      {"threads", figures.threads},
      {"tokens_per_update", figures.tokens_per_update},
      {"step_seconds", means.seconds},
      {"tokens_per_second", tokens_per_second},
      {"model_flops_utilization", Utilization(figures.flops_per_token, tokens_per_second,
                                              figures.peak_flops_per_second)},
      {"peak_flops_per_second", figures.peak_flops_per_second},
      {"accounted", AccountedShare(profile, figures)},
      {"data_seconds", means.data},
      {"other_seconds", means.other()},
      {"by_op", ListOf(profile.by_op(), figures.updates)},
      {"by_block", ListOf(profile.by_block(), figures.updates)},
      {"by_call", ListOf(profile.by_call(), figures.updates)}};
  return json.dump(1) + "\n";
}

}  // namespace colossus
