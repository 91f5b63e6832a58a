// What a training program moves between tiers and where its memory goes, in numbers and lines.
//
// Thread-safety: one thread a rank; TierBytesMoved::Next is collective over the group. Ownership:
// the program must outlive TierBytesMoved.
//
//   TierBytesMoved moved(session.training->program());
//   ASSIGN_OR_RETURN(const TierTraffic update, moved.Next(group));
//   for (const std::string& line : TierLines(program, update)) log.Info(line);
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
};

// Least bytes over the link, both ways together, that an update of a training program needs for
// parameters and gradients where its states live now: with M bytes of parameters, 4 M where the
// device keeps them and their states are elsewhere; 6 M - C where they stream, of which the device
// keeps C from forward to backward. No number: no placement was made.
std::optional<int64_t> TrafficLowerBound(const Program& program);

// Share of the time of copies that compute hides, as predicted. No number: nothing is moved.
std::optional<double> HiddenTransferFraction(const Program& program);

// What an update moves by direction and kind, beside the bound, and each tier's peak with what
// makes it. `update`: of one update.
std::vector<std::string> TierLines(const Program& program, const TierTraffic& update);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_TIER_REPORT_H_
