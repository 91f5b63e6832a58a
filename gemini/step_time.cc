#include "gemini/step_time.h"

#include <algorithm>
#include <array>

namespace colossus {

StepTime TimeStep(const StepTrace& trace, const std::vector<bool>& on_host) {
  StepTime time;
  std::array<double, 3> ready = {0, 0, 0};  // compute, link, host
  std::vector<double> made(trace.buffers.size(), 0);
  size_t i = 0;
  for (size_t end : trace.phase_end) {
    ready.fill(time.total);
    for (; i < end; ++i) {
      const TracedInstruction& instruction = trace.instructions[i];
      const bool host = on_host[i];
      double& stream = ready[host ? 2 : instruction.link ? 1 : 0];
      // Communication starts when all compute before it has finished.
      double start = instruction.link && !host ? std::max(stream, ready[0]) : stream;
      for (const TracedUse& use : instruction.uses) {
        if (!use.overwrites) start = std::max(start, made[use.buffer]);
      }
      stream = start + (host ? instruction.host_seconds : instruction.seconds);
      for (const TracedUse& use : instruction.uses) {
        if (use.writes) made[use.buffer] = stream;
      }
      time.start.push_back(start);
      time.end.push_back(stream);
      time.total = std::max(time.total, stream);
    }
  }
  return time;
}

std::vector<int> PhaseNumbers(absl::Span<const size_t> phase_end) {
  std::vector<int> phase;
  for (size_t p = 0; p < phase_end.size(); ++p) phase.resize(phase_end[p], static_cast<int>(p));
  return phase;
}

PhaseOf FindPhases(const StepTrace& trace) {
  PhaseOf phases;
  int64_t begin = 0, earliest = 0;
  for (size_t p = 0; p < trace.phase_end.size(); ++p) {
    const size_t end = trace.phase_end[p];
    if (!Follows(trace, p)) earliest = begin;
    phases.begin.resize(end, begin);
    phases.end.resize(end, static_cast<int64_t>(end));
    phases.earliest.resize(end, earliest);
    begin = static_cast<int64_t>(end);
  }
  return phases;
}

}  // namespace colossus
