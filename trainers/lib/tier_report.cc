#include "trainers/lib/tier_report.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "parallel/training_step.h"
#include "trainers/lib/progress.h"

namespace colossus {
namespace {

constexpr int64_t kSmallMemory = int64_t{64} << 20;  // below it nothing is off

std::array<MovedBytes*, 4> Ways(TierTraffic& traffic) {
  return {&traffic.host_to_device, &traffic.device_to_host, &traffic.disk_read,
          &traffic.disk_written};
}

}  // namespace

absl::StatusOr<TierTraffic> TierBytesMoved::Next(RankGroup group) {
  if (!program_.plan().placed) return TierTraffic();
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

std::vector<std::string> ReportLines(const PlacementReport& report) {
  std::vector<std::string> lines = {
      "what lies where at the peak, and what an update moves, in bytes:"};
  for (absl::string_view line : absl::StrSplit(ToText(report), '\n', absl::SkipEmpty())) {
    lines.push_back(std::string(line));
  }
  return lines;
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
