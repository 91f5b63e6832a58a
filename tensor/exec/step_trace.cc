#include "tensor/exec/step_trace.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "tensor/exec/stream_waits.h"

namespace colossus {
namespace {

class Tracer {
 public:
  Tracer(const Step& step, const std::vector<Executable>& executables, const StepStorage& all)
      : step_(step), executables_(executables), all_(all), until_(InUseUntil(all)) {}

  TracedStep Run() {
    AddBuffers();
    for (size_t t = 0; t < all_.drafts.size(); ++t) AddInstruction(t);
    traced_.trace.phase_end = all_.phase_end;
    traced_.trace.follows = all_.follows;
    return std::move(traced_);
  }

 private:
  void AddBuffer(int root, std::optional<Role> role) {
    const Storage& storage = all_.storages[root];
    traced_.buffer[root] = static_cast<int>(traced_.root.size());
    traced_.root.push_back(root);
    traced_.trace.buffers.push_back({storage.what, AlignedBytes(storage.bytes), role});
  }

  void AddBuffers() {
    traced_.buffer.assign(all_.storages.size(), -1);
    for (size_t i = 0; i < all_.states.size(); ++i) {
      AddBuffer(all_.state_storage[i], all_.states[i].info.role);
    }
    for (size_t s = 0; s < all_.storages.size(); ++s) {
      if (all_.IsBuffer(all_.storages[s])) AddBuffer(static_cast<int>(s), std::nullopt);
    }
    for (size_t s = 0; s < all_.storages.size(); ++s) {
      traced_.buffer[s] = traced_.buffer[all_.Root(static_cast<int>(s))];
    }
  }

  TracedUse& UseOf(TracedInstruction& instruction, int storage, int64_t until) {
    const int buffer = traced_.buffer[storage];
    for (TracedUse& use : instruction.uses) {
      if (use.buffer == buffer) return use;
    }
    TracedUse use;
    use.buffer = buffer;
    use.until = until;
    return instruction.uses.emplace_back(use);
  }

  // Nothing of what the root held before is of use once storage `s` was written at draft `t`.
  bool IsAllThatMatters(int s, size_t t) const {
    const Storage& root = all_.storages[all_.Root(s)];
    if (root.home < 0 && root.first == static_cast<int64_t>(t)) return true;
    return all_.OffsetInRoot(s) == 0 && all_.storages[s].bytes == root.bytes;
  }

  void AddInstruction(size_t t) {
    const Draft& draft = all_.drafts[t];
    TracedInstruction& instruction = traced_.trace.instructions.emplace_back();
    instruction.link = draft.instruction.link;
    AddTimes(draft, instruction);
    for (int s : draft.operands) UseOf(instruction, s, until_[t]).reads = true;
    auto write = [&](int s) {
      TracedUse& use = UseOf(instruction, s, until_[t]);
      use.writes = true;
      if (!use.reads && IsAllThatMatters(s, t)) use.overwrites = true;
    };
    for (int s : draft.results) write(s);
    if (draft.workspace >= 0) write(draft.workspace);
  }

  void AddTimes(const Draft& draft, TracedInstruction& instruction) const {
    const Call& call = step_.calls[draft.instruction.call];
    const StepSegment& segment = step_.segments[call.segment];
    switch (draft.instruction.kind) {
      case InstructionKind::kFeed:
      case InstructionKind::kFetch:
        instruction.may_run_on_host = true;
        return;
      case InstructionKind::kKernel: {
        const CompiledNode& node = executables_[call.segment].nodes[draft.instruction.node];
        instruction.seconds = node.seconds;
        instruction.host_seconds = node.host_seconds;
        instruction.may_run_on_host =
            node.host_kernel != nullptr && segment.may_run_on_host && !draft.instruction.link;
        return;
      }
      default:
        instruction.may_run_on_host = segment.may_run_on_host && !draft.instruction.link;
        return;
    }
  }

  const Step& step_;
  const std::vector<Executable>& executables_;
  const StepStorage& all_;
  const std::vector<int64_t> until_;
  TracedStep traced_;
};

}  // namespace

TracedStep TraceStep(const Step& step, const std::vector<Executable>& executables,
                     const StepStorage& storage) {
  return Tracer(step, executables, storage).Run();
}

}  // namespace colossus
