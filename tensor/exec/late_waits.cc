#include "tensor/exec/late_waits.h"

#include <algorithm>
#include <vector>

namespace colossus {
namespace {

bool Meet(const BufferRange& a, const BufferRange& b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

bool AnyMeet(const std::vector<BufferRange>& a, const std::vector<BufferRange>& b) {
  return std::any_of(a.begin(), a.end(), [&](const BufferRange& x) {
    return std::any_of(b.begin(), b.end(), [&](const BufferRange& y) { return Meet(x, y); });
  });
}

std::vector<BufferRange> Written(const Instruction& instruction) {
  std::vector<BufferRange> ranges = instruction.results;
  ranges.push_back(instruction.workspace);
  return ranges;
}

bool Conflict(const Instruction& a, const Instruction& b) {
  const std::vector<BufferRange> a_writes = Written(a), b_writes = Written(b);
  return AnyMeet(a_writes, b_writes) || AnyMeet(a_writes, b.operands) ||
         AnyMeet(a.operands, b_writes);
}

// The link instructions of phase [begin, end) that its compute does not wait for. None if staging
// memory is among what they use, which the host reuses.
std::vector<int> LateOnes(const MemoryPlan& plan, size_t begin, size_t end) {
  int waited = -1;
  for (size_t t = begin; t < end; ++t) {
    const Instruction& instruction = plan.instructions[t];
    if (!instruction.link) waited = std::max(waited, instruction.wait);
  }
  std::vector<int> late;
  for (size_t t = begin; t < end; ++t) {
    const Instruction& instruction = plan.instructions[t];
    if (!instruction.link || static_cast<int>(t) <= waited) continue;
    if (instruction.kind == InstructionKind::kFeed || instruction.kind == InstructionKind::kFetch) {
      return {};
    }
    late.push_back(static_cast<int>(t));
  }
  return late;
}

// The waits of phase [begin, end) for `late`, which run one after another.
void AddWaitsFor(const std::vector<int>& late, size_t begin, size_t end, MemoryPlan& plan) {
  size_t covered = 0;  // so many of them have been waited for
  for (size_t t = begin; t < end && covered < late.size(); ++t) {
    Instruction& instruction = plan.instructions[t];
    if (instruction.link) continue;
    for (size_t i = late.size(); i > covered; --i) {
      if (!Conflict(instruction, plan.instructions[static_cast<size_t>(late[i - 1])])) continue;
      instruction.late_waits.push_back(late[i - 1]);
      covered = i;
      break;
    }
  }
}

}  // namespace

void AddLateWaits(MemoryPlan& plan) {
  std::vector<std::vector<int>> late;
  size_t begin = 0;
  for (size_t end : plan.phase_end) {
    late.push_back(LateOnes(plan, begin, end));
    plan.outlasts.push_back(!late.back().empty());
    begin = end;
  }
  for (const std::vector<int>& of_phase : late) {
    begin = 0;
    for (size_t end : plan.phase_end) {
      AddWaitsFor(of_phase, begin, end, plan);
      begin = end;
    }
  }
}

}  // namespace colossus
