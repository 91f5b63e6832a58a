#include "trainers/lib/tier_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "base/status.h"
#include "parallel/training_step.h"
#include "tensor/exec/timeline.h"
#include "trainers/lib/progress.h"

namespace colossus {
namespace {

std::array<MovedBytes*, 4> Ways(TierTraffic& traffic) {
  return {&traffic.host_to_device, &traffic.device_to_host, &traffic.disk_read,
          &traffic.disk_written};
}

// Fractions are told to other ranks as integers.
constexpr double kFine = 1e9;

// Bytes and elements of states of a role whose homes are not on the device.
struct OffDevice {
  int64_t bytes = 0, elements = 0;
};

OffDevice StatesOffDevice(const MemoryPlan& plan, Role role) {
  OffDevice sum;
  for (const StateHome& home : plan.states) {
    if (home.info.role != role || home.range.tier == Tier::kDevice) continue;
    sum.bytes += home.type.bytes();
    sum.elements += home.type.elements();
  }
  return sum;
}

// Of one element of the first parameter; all have the same type.
int64_t ParameterSize(const MemoryPlan& plan) {
  for (const StateHome& home : plan.states) {
    if (home.info.role == Role::kParameter) return SizeOf(home.type.dtype);
  }
  return 0;
}

std::string ByKind(const MovedBytes& bytes) {
  std::vector<std::string> parts;
  for (size_t kind = 0; kind < kMovedKinds; ++kind) {
    if (bytes[kind] == 0) continue;
    parts.push_back(absl::StrCat(Name(static_cast<Moved>(kind)), " ", bytes[kind]));
  }
  return parts.empty() ? absl::StrCat(Total(bytes))
                       : absl::StrCat(Total(bytes), " (", absl::StrJoin(parts, ", "), ")");
}

std::string PeakLine(absl::string_view tier, int64_t bytes,
                     const std::vector<Contributor>& largest) {
  std::vector<std::string> parts;
  for (const Contributor& contributor : largest) {
    parts.push_back(absl::StrCat(contributor.what, " ", BytesText(contributor.bytes)));
  }
  return absl::StrCat("peak on ", tier, ": ", bytes, " bytes (", BytesText(bytes), ")",
                      parts.empty() ? "" : "; largest: ", absl::StrJoin(parts, ", "));
}

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

std::optional<int64_t> TrafficLowerBound(const Program& program) {
  const MemoryPlan& plan = program.plan();
  if (!plan.placed) return std::nullopt;
  const OffDevice parameters = StatesOffDevice(plan, Role::kParameter);
  // Those whose states are elsewhere are updated there: their gradients go out, and values that the
  // device keeps come back.
  const int64_t updated = std::max(StatesOffDevice(plan, Role::kMoment1).elements,
                                   StatesOffDevice(plan, Role::kMaster).elements);
  const int64_t size = ParameterSize(plan);
  const int64_t loaded =
      TrafficOf(plan, kAccumulatePhase).host_to_device[static_cast<size_t>(Moved::kParameters)];
  const int64_t kept = std::clamp<int64_t>(2 * parameters.bytes - loaded, 0, parameters.bytes);
  return 2 * parameters.bytes - kept + updated * size +
         std::max<int64_t>(0, updated * size - parameters.bytes);
}

std::optional<double> HiddenTransferFraction(const Program& program) {
  if (!program.plan().placed) return std::nullopt;
  const std::vector<int> update = {kAccumulatePhase, kMeasurePhase, kUpdatePhase};
  const PhaseTime time = PredictPhases(program, update, 1);
  if (time.transfer <= 0) return std::nullopt;
  return std::clamp(time.hidden_transfer_fraction(), 0.0, 1.0);
}

absl::StatusOr<TierFigures> TierFiguresOf(const Program& program, RankGroup group) {
  TierFigures figures{TrafficLowerBound(program), HiddenTransferFraction(program)};
  if (program.options().placer == nullptr || group.size() == 1) return figures;
  const int64_t none = -1;
  std::vector<int64_t> numbers = {figures.traffic_lower_bound.value_or(none), none};
  if (figures.hidden_transfer_fraction) {
    numbers[1] = std::llround(kFine * (1 - *figures.hidden_transfer_fraction));
  }
  RETURN_IF_ERROR(group.MaxOfEach(numbers, "tier figures"));
  figures = {};
  if (numbers[0] != none) figures.traffic_lower_bound = numbers[0];
  if (numbers[1] != none) {
    figures.hidden_transfer_fraction = 1 - static_cast<double>(numbers[1]) / kFine;
  }
  return figures;
}

std::vector<std::string> TierLines(const Program& program, const TierTraffic& update,
                                   const TierFigures& figures) {
  const MemoryPlan& plan = program.plan();
  std::vector<std::string> lines;
  const std::optional<double>& hidden = figures.hidden_transfer_fraction;
  if (!figures.traffic_lower_bound) return lines;
  lines.push_back(absl::StrCat(
      "bytes an update: host to device ", ByKind(update.host_to_device), ", device to host ",
      ByKind(update.device_to_host), "; parameters and gradients need at least ",
      *figures.traffic_lower_bound, " in both directions together",
      hidden ? absl::StrFormat("; %.1f %% of the time of copies is predicted to be hidden",
                               100 * *hidden)
             : ""));
  lines.push_back(absl::StrCat("bytes an update: disk read ", ByKind(update.disk_read),
                               ", disk write ", ByKind(update.disk_written)));
  lines.push_back(PeakLine("device", plan.device_bytes, plan.contributors));
  lines.push_back(PeakLine("host", plan.host_bytes, plan.host_contributors));
  lines.push_back(PeakLine("disk", plan.disk_bytes, plan.disk_contributors));
  return lines;
}

}  // namespace colossus
