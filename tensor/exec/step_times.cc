#include "tensor/exec/step_times.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "tensor/exec/step.h"
#include "tensor/ops/collective.h"
#include "tensor/ops/op.h"

namespace colossus {
namespace {

// Copies of fewer bytes say more of latency than of speed.
constexpr int64_t kLeastBytes = 1 << 16;

}  // namespace

MeasureStep::MeasureStep(Program& program) : program_(program) {
  CHECK(program.plan().placed);
  int traced = 0;
  for (const Instruction& instruction : program.plan().instructions) {
    traced = std::max(traced, instruction.traced + 1);
  }
  times_.device.assign(static_cast<size_t>(traced), -1);
  times_.host = times_.device;
}

void MeasureStep::Before(size_t) { start_ = program_.device().clock().Seconds(); }

absl::Status MeasureStep::After(size_t t) {
  const double seconds = program_.device().clock().Seconds() - start_;
  const Instruction& instruction = program_.plan().instructions[t];
  if (IsMessage(instruction)) return absl::OkStatus();
  if (instruction.traced >= 0) {
    std::vector<double>& where = instruction.on_host ? times_.host : times_.device;
    where[static_cast<size_t>(instruction.traced)] = seconds;
    return absl::OkStatus();
  }
  const int64_t bytes = instruction.results[0].bytes;
  if (bytes < kLeastBytes) return absl::OkStatus();
  Copies& copies = instruction.kind == InstructionKind::kReadDisk    ? disk_read_
                   : instruction.kind == InstructionKind::kWriteDisk ? disk_write_
                                                                     : link_;
  copies.bytes += static_cast<double>(bytes);
  copies.seconds += seconds;
  return absl::OkStatus();
}

bool MeasureStep::IsMessage(const Instruction& instruction) const {
  if (instruction.kind != InstructionKind::kKernel) return false;
  const Step& step = program_.step();
  const Op* op = step.graph_of(step.calls[instruction.call]).node(instruction.node).op;
  return op == &SendOp() || op == &ReceiveOp();
}

StepTimes MeasureStep::times() const {
  StepTimes times = times_;
  times.link = link_.rate();
  times.disk_read = disk_read_.rate();
  times.disk_write = disk_write_.rate();
  return times;
}

}  // namespace colossus
