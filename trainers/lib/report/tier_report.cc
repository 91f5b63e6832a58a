#include "trainers/lib/report/tier_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "parallel/training_step.h"
#include "trainers/lib/report/progress.h"

namespace colossus {
namespace {

constexpr int64_t kSmallMemory = int64_t{64} << 20;  // below it nothing is off

std::array<MovedBytes*, 4> Ways(TierTraffic& traffic) {
  return {&traffic.host_to_device, &traffic.device_to_host, &traffic.disk_read,
          &traffic.disk_written};
}

// Fractions are told to other ranks as integers.
constexpr double kFine = 1e9;

}  // namespace

absl::StatusOr<TierTraffic> TierBytesMoved::Next(RankGroup group) {
  if (program_.options().placer == nullptr) return TierTraffic();  // on no rank
  if (!any_) {
    ASSIGN_OR_RETURN(const int64_t any, group.Max(program_.plan().placed ? 1 : 0, "placed"));
    any_ = any != 0;
  }
  if (!*any_) return TierTraffic();
  TierTraffic now = program_.traffic();
  std::vector<int64_t> numbers;
  for (size_t way = 0; way < 4; ++way) {
    for (size_t kind = 0; kind < kMovedKinds; ++kind) {
      numbers.push_back((*Ways(now)[way])[kind] - (*Ways(before_)[way])[kind]);
    }
  }
  before_ = now;
  RETURN_IF_ERROR(group.MaxOfEach(numbers, "tier bytes"));
  TierTraffic result;
  for (size_t n = 0; n < numbers.size(); ++n) {
    (*Ways(result)[n / kMovedKinds])[n % kMovedKinds] = numbers[n];
  }
  return result;
}

PlacementReport ReportUpdate(Program& program) {
  return ReportProgram(program, {kAccumulatePhase, kMeasurePhase, kUpdatePhase});
}

absl::StatusOr<TierFigures> TierBytesMoved::Figures(const PlacementReport& report,
                                                    RankGroup group) const {
  TierFigures figures;
  figures.device_peak = program_.plan().device_bytes;
  figures.host_peak = HostPeakBytes();
  if (program_.plan().placed) {
    figures.traffic_lower_bound = report.bound.model();
    if (report.time.copying > 0) figures.hidden_transfer_fraction = report.time.hidden();
  }
  if (group.size() == 1) return figures;
  const int64_t none = -1;
  std::vector<int64_t> numbers = {figures.device_peak, figures.host_peak,
                                  figures.traffic_lower_bound.value_or(none), none};
  if (figures.hidden_transfer_fraction) {
    numbers[3] = std::llround(kFine * (1 - *figures.hidden_transfer_fraction));
  }
  RETURN_IF_ERROR(group.MaxOfEach(numbers, "tier figures"));
  figures = {numbers[0], numbers[1], std::nullopt, std::nullopt};
  if (numbers[2] != none) figures.traffic_lower_bound = numbers[2];
  if (numbers[3] != none) {
    figures.hidden_transfer_fraction = 1 - static_cast<double>(numbers[3]) / kFine;
  }
  return figures;
}

std::vector<std::string> ReportLines(const PlacementReport& report) {
  std::vector<std::string> lines = {
      "what lies where at the peak, and what an update moves, in bytes:"};
  for (absl::string_view line : absl::StrSplit(ToText(report), '\n', absl::SkipEmpty())) {
    lines.push_back(std::string(line));
  }
  return lines;
}

std::optional<std::string> PlacementChoice(Program& program) {
  if (program.options().placer == nullptr) return std::nullopt;
  const PlacementReport report = ReportUpdate(program);
  const TierReport& device = report.tiers[static_cast<size_t>(Tier::kDevice)];
  if (!program.plan().placed) {
    const bool bounded = device.capacity < INT64_MAX;
    return absl::StrCat("placement=auto chose the device for everything: ", BytesText(device.peak),
                        " fit", bounded ? absl::StrCat(" its ", BytesText(device.capacity)) : "");
  }
  const TierTraffic& moved = report.moved;
  const double waits = report.time.seconds - report.time.without_copies;
  return absl::StrFormat(
      "placement=auto chose homes of %s of states on the device, %s on the host, %s on disk; an "
      "update moves %s over the link, at least %s, and takes %.4g s as predicted, %.4g s of them "
      "waiting for copies",
      BytesText(device.homes), BytesText(report.tiers[static_cast<size_t>(Tier::kHost)].homes),
      BytesText(report.tiers[static_cast<size_t>(Tier::kDisk)].homes),
      BytesText(Total(moved.host_to_device) + Total(moved.device_to_host)),
      BytesText(report.bound.model() + report.bound.activations()), report.time.seconds, waits);
}

absl::StatusOr<int64_t> PlannedBytes(Program& program, bool processes, RankGroup group) {
  const bool apart = program.device().kind() == DeviceKind::kCuda;
  const int64_t own = program.plan().host_bytes + (apart ? 0 : program.plan().device_bytes);
  if (processes) return own;
  return group.Sum(own, "planned memory");
}

std::string MemoryLine(int64_t planned, int64_t taken) {
  const std::string text = absl::StrCat("memory of the process: ", BytesText(planned),
                                        " planned, ", BytesText(taken), " taken");
  if (std::abs(taken - planned) <= std::max(planned / 10, kSmallMemory)) return text;
  return absl::StrCat(text, taken > planned
                                ? "; off are first values, checkpoints and libraries, which lie "
                                  "outside of what is planned"
                                : "; off are planned bytes that nothing has touched");
}

}  // namespace colossus
