// Timeline: when each instruction of a Program would run, and how much communication is exposed.
//
// Purpose: a reading of the plan, without running it: each stream runs its instructions one after
// another for the seconds that their kernels are predicted to take, and waits where the plan says
// so. What the compute stream spends waiting, and what the link still does when compute has ended,
// is exposed communication. Feeds and fetches are left out; copies between tiers of a placed plan
// take what ProgramOptions::transfer_rates say. What was measured (Program::PlaceAgain) counts
// instead.
// Thread-safety: plain functions of the program's plan.
//
//   const std::vector<int> update = {kAccumulatePhase, kMeasurePhase, kUpdatePhase};
//   const PhaseTime time =
//       PredictPhases(*program, update, 3) - PredictPhases(*program, update, 2);
//   time.exposed() / time.seconds;     // of an update among many
#ifndef COLOSSUS_TENSOR_EXEC_TIMELINE_H_
#define COLOSSUS_TENSOR_EXEC_TIMELINE_H_

#include <string>

#include "absl/types/span.h"
#include "tensor/exec/program.h"

namespace colossus {

struct PhaseTime {
  double seconds = 0;   // from the start to the end of both streams
  double compute = 0;   // of instructions of the compute stream
  double link = 0;      // of instructions of the link stream
  double host = 0;      // of instructions on the host
  double transfer = 0;  // of copies between tiers
  // How much shorter it would be if copies between tiers took no time; and if work of the host took
  // none either.
  double exposed_transfer = 0, exposed_tiers = 0;

  // Communication.
  double exposed() const { return seconds - compute - exposed_tiers; }
  double hidden_transfer_fraction() const {
    return transfer > 0 ? 1 - exposed_transfer / transfer : 1;
  }
  PhaseTime operator-(const PhaseTime& other) const;
};

// Without overlap, communication on the compute stream counts as link time all the same.
PhaseTime PredictPhase(const Program& program, int phase);

// Phases one after another, `repeat` times. Communication may outlast its phase, but for the last.
PhaseTime PredictPhases(const Program& program, absl::Span<const int> phases, int repeat = 1);

// "0.412 s: 0.400 s compute, 0.150 s communication, 0.012 s of it exposed (2.9 %)".
std::string ToText(const PhaseTime& time);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_EXEC_TIMELINE_H_
