#include "tensor/exec/timeline.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "tensor/exec/executable.h"
#include "tensor/exec/memory_plan.h"
#include "tensor/exec/step.h"
#include "tensor/ops/collective.h"

namespace colossus {
namespace {

// nullptr: no kernel.
const CompiledNode* NodeOf(const Program& program, const Instruction& instruction) {
  if (instruction.kind != InstructionKind::kKernel) return nullptr;
  const Call& call = program.step().calls[instruction.call];
  return &program.executables()[call.segment].nodes[instruction.node];
}

bool Communicates(const Program& program, const Instruction& instruction) {
  if (instruction.link) return true;
  if (instruction.kind != InstructionKind::kKernel) return false;
  const Call& call = program.step().calls[instruction.call];
  return program.step().segments[call.segment].link ||
         IsCollective(*program.step().graph_of(call).node(instruction.node).op);
}

}  // namespace

PhaseTime PhaseTime::operator-(const PhaseTime& other) const {
  return {seconds - other.seconds, compute - other.compute, link - other.link};
}

PhaseTime PredictPhase(const Program& program, int phase) {
  const PhaseTime time = PredictPhases(program, {phase});
  return time;
}

PhaseTime PredictPhases(const Program& program, absl::Span<const int> phases, int repeat) {
  const MemoryPlan& plan = program.plan();
  PhaseTime time;
  std::vector<double> finished(plan.instructions.size(), 0);
  double compute = 0, link = 0;  // when the streams are free
  for (size_t run = 0; run < phases.size() * static_cast<size_t>(repeat); ++run) {
    const int phase = phases[run % phases.size()];
    const size_t begin = phase == 0 ? 0 : plan.phase_end[phase - 1], end = plan.phase_end[phase];
    link = std::max(link, compute);  // the host has waited for compute
    for (size_t t = begin; t < end; ++t) {
      const Instruction& instruction = plan.instructions[t];
      const CompiledNode* node = NodeOf(program, instruction);
      const double seconds = node == nullptr ? 0 : node->seconds;
      double& stream = instruction.link ? link : compute;
      if (instruction.wait >= 0) {
        stream = std::max(stream, finished[static_cast<size_t>(instruction.wait)]);
      }
      for (int late : instruction.late_waits) {
        stream = std::max(stream, finished[static_cast<size_t>(late)]);
      }
      stream += seconds;
      finished[t] = stream;
      (Communicates(program, instruction) ? time.link : time.compute) += seconds;
    }
    if (!plan.outlasts[phase]) compute = std::max(compute, link);
  }
  time.seconds = std::max(compute, link);
  return time;
}

std::string ToText(const PhaseTime& time) {
  return absl::StrFormat(
      "%.3g s: %.3g s compute, %.3g s communication, %.3g s of it exposed (%.1f %%)", time.seconds,
      time.compute, time.link, time.exposed(),
      time.seconds > 0 ? 100 * time.exposed() / time.seconds : 0);
}

}  // namespace colossus
