// What the updates of a training program move between tiers, over all ranks, beside what they must.
//
// Stages of a pipeline move different bytes, and some of them none.
// Thread-safety: one thread a rank; what takes the group is collective over it. Ownership: the
// program must outlive TierBytesMoved.
//
//   TierBytesMoved moved(session.training->program());
//   PlacementReport report = ReportUpdate(program);
//   ASSIGN_OR_RETURN(report.moved, moved.Next(group));
//   ASSIGN_OR_RETURN(const TierFigures figures, moved.Figures(report, group));
//   for (const std::string& line : ReportLines(report)) log.Info(line);
#ifndef COLOSSUS_TRAINERS_LIB_REPORT_TIER_REPORT_H_
#define COLOSSUS_TRAINERS_LIB_REPORT_TIER_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gemini/report.h"
#include "tensor/exec/memory_plan.h"
#include "tensor/exec/program.h"
#include "trainers/lib/ranks/rank_group.h"

namespace colossus {

// Of a job: of the rank where each is worst; what is about copies of those whose programs are
// placed.
struct TierFigures {
  int64_t device_peak = 0;  // planned high water of a rank's arena
  int64_t host_peak = 0;    // largest resident size of a process
  std::optional<int64_t> traffic_lower_bound;
  std::optional<double> hidden_transfer_fraction;
};

// What the program's copies moved since the last time it was asked.
class TierBytesMoved {
 public:
  explicit TierBytesMoved(const Program& program) : program_(program) {}
  // Each number is that of the rank where it is largest.
  absl::StatusOr<TierTraffic> Next(RankGroup group);
  // `report`: this rank's.
  absl::StatusOr<TierFigures> Figures(const PlacementReport& report, RankGroup group) const;

 private:
  const Program& program_;
  TierTraffic before_;
  std::optional<bool> any_;  // whether any rank's program is placed; none: not known yet
};

// Of one update of a training program, as it is placed now.
PlacementReport ReportUpdate(Program& program);

// What placement=auto chose, a line for the log. None: the program has no placer, since its device
// has no tiers below it.
std::optional<std::string> PlacementChoice(Program& program);

// The report for the log.
std::vector<std::string> ReportLines(const PlacementReport& report);

// Bytes that a program plans to take of its process, or all programs of threads of one process.
absl::StatusOr<int64_t> PlannedBytes(Program& program, bool processes, RankGroup group);
// Planned bytes of a process beside what it took; says why where they differ by more than a tenth.
std::string MemoryLine(int64_t planned, int64_t taken);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_REPORT_TIER_REPORT_H_
