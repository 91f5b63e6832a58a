// StepTime: when the instructions of a step run in virtual time, if no copy makes them wait.
//
// Purpose: the clock by which a placement starts its copies. Compute, communication and what runs
// on the host are three streams, each in order; an instruction waits for whoever made what it
// reads, and a phase for all of the phase before.
// Thread-safety: a plain function. Ownership: plain values.
//
//   StepTime time = TimeStep(trace, placement.on_host);
//   time.start[i];       // seconds since the step began
#ifndef COLOSSUS_GEMINI_STEP_TIME_H_
#define COLOSSUS_GEMINI_STEP_TIME_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tensor/exec/placement.h"

namespace colossus {

struct StepTime {
  std::vector<double> start, end;  // per instruction
  double total = 0;
};

StepTime TimeStep(const StepTrace& trace, const std::vector<bool>& on_host);

// Per instruction: its phase. `phase_end`: per phase one past its last instruction.
std::vector<int> PhaseNumbers(absl::Span<const size_t> phase_end);

// Per instruction: the first one of its phase, one past the last one, and the first one of the
// earliest phase that those up to its own follow.
struct PhaseOf {
  std::vector<int64_t> begin, end, earliest;
};
PhaseOf FindPhases(const StepTrace& trace);

}  // namespace colossus

#endif  // COLOSSUS_GEMINI_STEP_TIME_H_
