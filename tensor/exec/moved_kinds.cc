#include "tensor/exec/moved_kinds.h"

#include <algorithm>
#include <cstddef>

namespace colossus {
namespace {

Moved KindOf(Role role) {
  switch (role) {
    case Role::kParameter:
      return Moved::kParameters;
    case Role::kAccumulator:
      return Moved::kGradients;
    default:
      return Moved::kStates;
  }
}

// Whether it updates parameters: then what it reads is gradients.
bool Updates(const StepTrace& trace, const TracedInstruction& instruction) {
  return std::any_of(
      instruction.uses.begin(), instruction.uses.end(), [&](const TracedUse& use) {
        return use.writes && trace.buffers[use.buffer].role == Role::kParameter;
      });
}

}  // namespace

std::vector<Moved> MovedKinds(const StepTrace& trace) {
  constexpr size_t kNone = static_cast<size_t>(-1);
  std::vector<size_t> first_phase(trace.buffers.size(), kNone);
  std::vector<Moved> kinds(trace.buffers.size(), Moved::kActivations);
  for (size_t t = 0, phase = 0; t < trace.instructions.size(); ++t) {
    while (trace.phase_end[phase] <= t) ++phase;
    const bool updates = Updates(trace, trace.instructions[t]);
    for (const TracedUse& use : trace.instructions[t].uses) {
      size_t& first = first_phase[use.buffer];
      if (first == kNone) first = phase;
      if (updates || first != phase) kinds[use.buffer] = Moved::kGradients;
    }
  }
  for (size_t b = 0; b < kinds.size(); ++b) {
    if (trace.buffers[b].role.has_value()) kinds[b] = KindOf(*trace.buffers[b].role);
  }
  return kinds;
}

}  // namespace colossus
