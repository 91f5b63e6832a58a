// What a training program moves between tiers and where its memory goes, in numbers and lines.
//
// Stages of a pipeline move different bytes, and some of them none.
// Thread-safety: one thread a rank; what takes the group is collective over it. Ownership: the
// program must outlive TierBytesMoved.
//
//   TierBytesMoved moved(session.training->program());
//   ASSIGN_OR_RETURN(const TierTraffic update, moved.Next(group));
//   ASSIGN_OR_RETURN(const TierFigures figures, TierFiguresOf(program, group));
//   for (const std::string& line : TierLines(program, update, figures)) log.Info(line);
#ifndef COLOSSUS_TRAINERS_LIB_TIER_REPORT_H_
#define COLOSSUS_TRAINERS_LIB_TIER_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/exec/memory_plan.h"
#include "tensor/exec/program.h"
#include "trainers/lib/ranks/rank_group.h"

namespace colossus {

// What the program's copies moved since the last time it was asked.
class TierBytesMoved {
 public:
  explicit TierBytesMoved(const Program& program) : program_(program) {}
  // Each number is that of the rank where it is largest.
  absl::StatusOr<TierTraffic> Next(RankGroup group);

 private:
  const Program& program_;
  TierTraffic before_;
  std::optional<bool> any_;  // whether any rank's program is placed; none: not known yet
};

// Least bytes over the link, both ways together, that an update of a training program needs for
// parameters and gradients where its states live now: with M bytes of parameters, 4 M where the
// device keeps them and their states are elsewhere; 6 M - C where they stream, of which the device
// keeps C from forward to backward. No number: no placement was made.
std::optional<int64_t> TrafficLowerBound(const Program& program);

// Share of the time of copies that compute hides, as predicted. No number: nothing is moved.
std::optional<double> HiddenTransferFraction(const Program& program);

// Both of a job: of the rank where they are worst, of those that have them.
struct TierFigures {
  std::optional<int64_t> traffic_lower_bound;
  std::optional<double> hidden_transfer_fraction;
};
absl::StatusOr<TierFigures> TierFiguresOf(const Program& program, RankGroup group);

// What an update moves by direction and kind, beside the bound, and each tier's peak on this rank
// with what makes it. `update`: of one update.
std::vector<std::string> TierLines(const Program& program, const TierTraffic& update,
                                   const TierFigures& figures);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_TIER_REPORT_H_
