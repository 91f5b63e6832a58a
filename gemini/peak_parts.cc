#include "gemini/peak_parts.h"

#include <iterator>
#include <map>
#include <numeric>
#include <vector>

#include "gemini/step_time.h"
#include "tensor/exec/disk_tier.h"
#include "tensor/exec/memory_plan.h"
#include "tensor/exec/step.h"
#include "tensor/ops/collective.h"
#include "tensor/ops/loss.h"

namespace colossus {
namespace {

size_t IndexOf(Tier tier) { return static_cast<size_t>(tier); }
size_t IndexOf(Held held) { return static_cast<size_t>(held); }

// A range of a tier and the instructions between which it holds something.
struct Buffer {
  Tier tier = Tier::kDevice;
  int64_t bytes = 0;
  size_t first = 0, last = 0;
  Held held = Held::kActivations;
};

Held HeldOf(Moved moved) {
  switch (moved) {
    case Moved::kParameters:
      return Held::kGathered;
    case Moved::kGradients:
      return Held::kGradients;
    case Moved::kStates:
      return Held::kStates;
    case Moved::kActivations:
      break;
  }
  return Held::kActivations;
}

class Reader {
 public:
  explicit Reader(const Program& program) : program_(program), plan_(program.plan()) {}

  std::array<HeldBytes, 3> Run() {
    for (size_t t = plan_.instructions.size(); t-- > 0;) Step(t);
    const std::vector<int> phase = PhaseNumbers(plan_.phase_end);
    for (Buffer& buffer : buffers_) {
      const bool crosses = phase[buffer.first] != phase[buffer.last];
      if (crosses && buffer.held == Held::kActivations) buffer.held = Held::kGradients;
    }
    std::array<HeldBytes, 3> parts = {};
    for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk}) {
      parts[IndexOf(tier)] = AtPeak(tier);
    }
    AddHomes(parts);
    return parts;
  }

 private:
  // Backwards: a buffer is met at its last use first, and its earliest writer last.
  void Step(size_t t) {
    for (const BufferRange& range : plan_.freed[t]) Open(range, t);
    const Instruction& instruction = plan_.instructions[t];
    for (const BufferRange& range : instruction.operands) {
      if (Buffer* buffer = Find(range)) buffer->first = t;
    }
    for (const BufferRange& range : instruction.results) {
      Write(range, t, HeldByResult(instruction));
    }
    if (instruction.workspace.bytes > 0) {
      Write(instruction.workspace, t, HeldByWorkspace(instruction));
    }
  }

  void Open(const BufferRange& range, size_t t) {
    std::map<int64_t, size_t>& live = live_[IndexOf(range.tier)];
    auto at = live.lower_bound(range.offset);
    if (at != live.begin() && End(std::prev(at)) > range.offset) --at;
    while (at != live.end() && at->first < range.offset + range.bytes) at = live.erase(at);
    live[range.offset] = buffers_.size();
    buffers_.push_back({range.tier, range.bytes, t, t, Held::kActivations});
  }

  int64_t End(std::map<int64_t, size_t>::const_iterator at) const {
    return at->first + buffers_[at->second].bytes;
  }

  // The buffer that holds the range now; nullptr: it is a state's, at home.
  Buffer* Find(const BufferRange& range) {
    std::map<int64_t, size_t>& live = live_[IndexOf(range.tier)];
    auto at = live.upper_bound(range.offset);
    if (at == live.begin() || End(--at) <= range.offset) return nullptr;
    return &buffers_[at->second];
  }

  void Write(const BufferRange& range, size_t t, Held held) {
    Buffer* buffer = Find(range);
    if (buffer == nullptr) return;
    buffer->first = t;
    buffer->held = held;
  }

  const StepSegment& SegmentOf(const Instruction& instruction) const {
    return program_.step().segments[program_.step().calls[instruction.call].segment];
  }
  const Op& OpOf(const Instruction& instruction) const {
    return *SegmentOf(instruction).segment.graph->node(instruction.node).op;
  }

  Held HeldByResult(const Instruction& instruction) const {
    if (instruction.kind >= InstructionKind::kLoad) return HeldOf(instruction.moved);
    if (instruction.kind != InstructionKind::kKernel) return Held::kActivations;
    const Op& op = OpOf(instruction);
    if (&op == &AllGatherOp() && SegmentOf(instruction).link) return Held::kGathered;
    return IsCollective(op) ? Held::kCommunication : Held::kActivations;
  }

  Held HeldByWorkspace(const Instruction& instruction) const {
    const Op& op = OpOf(instruction);
    if (&op == &LinearCrossEntropyOp()) return Held::kLogits;
    return IsCollective(op) ? Held::kCommunication : Held::kWorkspaces;
  }

  HeldBytes AtPeak(Tier tier) const {
    std::vector<HeldBytes> change(plan_.instructions.size() + 1, HeldBytes{});
    for (const Buffer& buffer : buffers_) {
      if (buffer.tier != tier) continue;
      change[buffer.first][IndexOf(buffer.held)] += buffer.bytes;
      change[buffer.last + 1][IndexOf(buffer.held)] -= buffer.bytes;
    }
    HeldBytes now = {}, most = {};
    int64_t most_bytes = 0;
    for (const HeldBytes& step : change) {
      for (size_t kind = 0; kind < kHeldKinds; ++kind) now[kind] += step[kind];
      const int64_t bytes = std::accumulate(now.begin(), now.end(), int64_t{0});
      if (bytes <= most_bytes) continue;
      most_bytes = bytes;
      most = now;
    }
    return most;
  }

  void AddHomes(std::array<HeldBytes, 3>& parts) const {
    for (const StateHome& home : plan_.states) {
      const bool sum = home.info.role == Role::kAccumulator;
      parts[IndexOf(home.range.tier)][IndexOf(sum ? Held::kGradients : Held::kStates)] +=
          home.range.bytes;
    }
    int64_t& staging = parts[IndexOf(Tier::kHost)][IndexOf(Held::kStaging)];
    staging += plan_.staging_bytes;
    const auto& disk = program_.options().disk;
    if (plan_.placed && disk != nullptr) staging += disk->staging_bytes();
  }

  const Program& program_;
  const MemoryPlan& plan_;
  std::vector<Buffer> buffers_;
  std::array<std::map<int64_t, size_t>, 3> live_;  // by tier: offset to index in buffers_
};

}  // namespace

absl::string_view Name(Held held) {
  constexpr absl::string_view kNames[] = {"states", "gathered",      "gradients",  "activations",
                                          "logits", "communication", "workspaces", "staging"};
  return kNames[static_cast<size_t>(held)];
}

std::array<HeldBytes, 3> PeakParts(const Program& program) { return Reader(program).Run(); }

}  // namespace colossus
