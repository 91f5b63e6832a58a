#include "tensor/exec/memory_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "tensor/exec/interval_allocator.h"
#include "tensor/exec/late_waits.h"
#include "tensor/exec/step_storage.h"
#include "tensor/exec/stream_waits.h"

namespace colossus {
namespace {

constexpr size_t kContributors = 5;

int64_t Aligned(int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

class Planner {
 public:
  explicit Planner(StepStorage all) : all_(std::move(all)), offset_of_(all_.storages.size(), 0) {}

  MemoryPlan Run() {
    plan_.phase_end = all_.phase_end;
    PlaceStates();
    PlaceBuffers();
    PlaceStaging();
    Emit();
    FindContributors();
    return std::move(plan_);
  }

 private:
  void Place(int storage, int64_t offset) {
    offset_of_[storage] = offset;
    if (all_.storages[storage].bytes == 0) return;
    plan_.device_bytes = std::max(plan_.device_bytes, offset + all_.storages[storage].bytes);
  }

  void PlaceStates() {
    std::vector<size_t> order(all_.states.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const StateHome &x = all_.states[a], &y = all_.states[b];
      return std::make_pair(x.info.role, x.type.dtype) < std::make_pair(y.info.role, y.type.dtype);
    });
    for (size_t i : order) {
      StateHome home = all_.states[i];
      home.range.offset = plan_.state_bytes;
      Place(all_.state_storage[i], plan_.state_bytes);
      plan_.state_bytes += Aligned(home.range.bytes);
      plan_.states.push_back(std::move(home));
    }
  }

  void PlaceBuffers() {
    std::vector<LiveBuffer> buffers;
    std::vector<int> owners;
    for (size_t s = 0; s < all_.storages.size(); ++s) {
      const Storage& storage = all_.storages[s];
      if (!all_.IsBuffer(storage)) continue;
      buffers.push_back({Aligned(storage.bytes), storage.first, storage.last, 0});
      owners.push_back(static_cast<int>(s));
    }
    AssignOffsets(buffers);
    for (size_t b = 0; b < buffers.size(); ++b) {
      Place(owners[b], plan_.state_bytes + buffers[b].offset);
    }
  }

  // Staging lives until its phase ends, when all copies have run.
  void PlaceStaging() {
    std::vector<LiveBuffer> buffers;
    std::vector<size_t> owners;
    size_t phase = 0;
    for (size_t t = 0; t < all_.drafts.size(); ++t) {
      const Instruction& instruction = all_.drafts[t].instruction;
      while (all_.phase_end[phase] <= t) ++phase;
      if (instruction.kind != InstructionKind::kFeed &&
          instruction.kind != InstructionKind::kFetch) {
        continue;
      }
      buffers.push_back({Aligned(instruction.type.bytes()), static_cast<int64_t>(t),
                         static_cast<int64_t>(all_.phase_end[phase]) - 1, 0});
      owners.push_back(t);
    }
    plan_.host_bytes = AssignOffsets(buffers);
    for (size_t b = 0; b < buffers.size(); ++b) {
      Instruction& instruction = all_.drafts[owners[b]].instruction;
      instruction.staging = {buffers[b].offset, instruction.type.bytes()};
    }
  }

  BufferRange RangeOf(int storage) const {
    return {offset_of_[all_.Root(storage)] + all_.OffsetInRoot(storage),
            all_.storages[storage].bytes};
  }

  void Emit() {
    plan_.freed.resize(all_.drafts.size());
    for (Draft& draft : all_.drafts) {
      Instruction& instruction = draft.instruction;
      for (int s : draft.operands) instruction.operands.push_back(RangeOf(s));
      for (int s : draft.results) instruction.results.push_back(RangeOf(s));
      if (draft.workspace >= 0) instruction.workspace = RangeOf(draft.workspace);
      plan_.instructions.push_back(std::move(instruction));
    }
    for (size_t s = 0; s < all_.storages.size(); ++s) {
      const Storage& storage = all_.storages[s];
      if (!all_.IsBuffer(storage) || storage.bytes == 0) continue;
      plan_.freed[storage.last].push_back(RangeOf(static_cast<int>(s)));
    }
  }

  // The instruction at which most bytes are alive.
  int64_t FindPeak() const {
    std::vector<int64_t> change(all_.drafts.size() + 1, 0);
    for (const Storage& storage : all_.storages) {
      if (!all_.IsBuffer(storage)) continue;
      change[storage.first] += storage.bytes;
      change[storage.last + 1] -= storage.bytes;
    }
    int64_t live = 0, most = -1, peak = 0;
    for (size_t t = 0; t < all_.drafts.size(); ++t) {
      live += change[t];
      if (live > most) {
        most = live;
        peak = static_cast<int64_t>(t);
      }
    }
    return peak;
  }

  void FindContributors() {
    const int64_t peak = FindPeak();
    std::vector<Contributor>& largest = plan_.contributors;
    for (const Storage& storage : all_.storages) {
      bool alive = all_.IsBuffer(storage) && storage.first <= peak && peak <= storage.last;
      if (storage.home >= 0 || alive) largest.push_back({storage.what, storage.bytes});
    }
    std::stable_sort(
        largest.begin(), largest.end(),
        [](const Contributor& a, const Contributor& b) { return a.bytes > b.bytes; });
    if (largest.size() > kContributors) largest.resize(kContributors);
  }

  StepStorage all_;
  std::vector<int64_t> offset_of_;  // per storage that is placed itself
  MemoryPlan plan_;
};

}  // namespace

const StateHome* MemoryPlan::FindState(absl::string_view name) const {
  for (const StateHome& home : states) {
    if (home.info.name == name) return &home;
  }
  return nullptr;
}

absl::StatusOr<MemoryPlan> PlanMemory(const Step& step,
                                      const std::vector<Executable>& executables,
                                      bool overlap) {
  ASSIGN_OR_RETURN(StepStorage storage, FindStorage(step, executables, overlap));
  AddWaits(step, storage);
  MemoryPlan plan = Planner(std::move(storage)).Run();
  AddLateWaits(plan);
  return plan;
}

absl::string_view Name(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::kFeed: return "feed";
    case InstructionKind::kKernel: return "kernel";
    case InstructionKind::kCopy: return "copy";
    case InstructionKind::kFetch: return "fetch";
  }
  CHECK(false) << "unknown instruction kind";
  return "";
}

std::string ToText(const MemoryPlan& plan) {
  auto range = [](const BufferRange& r) {
    return absl::StrCat(" [", r.offset, ",", r.offset + r.bytes, ")");
  };
  std::string text = absl::StrCat("device ", plan.device_bytes, " bytes, ", plan.state_bytes,
                                  " of state; host ", plan.host_bytes, " bytes\n");
  for (const StateHome& home : plan.states) {
    absl::StrAppend(&text, "state ", home.info.name, " ", Name(home.info.role), " ",
                    ToString(home.type), range(home.range), "\n");
  }
  size_t phase = 0;
  for (size_t t = 0; t < plan.instructions.size(); ++t) {
    for (; phase < plan.phase_end.size() && (phase == 0 || plan.phase_end[phase - 1] <= t);
         ++phase) {
      absl::StrAppend(&text, "phase ", phase, "\n");
    }
    const Instruction& instruction = plan.instructions[t];
    absl::StrAppend(&text, t, " ", Name(instruction.kind), " ", instruction.name);
    if (instruction.micro_batch >= 0) absl::StrAppend(&text, ".", instruction.micro_batch);
    for (const BufferRange& r : instruction.operands) absl::StrAppend(&text, range(r));
    if (!instruction.results.empty()) absl::StrAppend(&text, " ->");
    for (const BufferRange& r : instruction.results) absl::StrAppend(&text, range(r));
    if (instruction.workspace.bytes > 0) {
      absl::StrAppend(&text, " workspace", range(instruction.workspace));
    }
    if (instruction.link) absl::StrAppend(&text, " on link");
    if (instruction.wait >= 0) absl::StrAppend(&text, " after ", instruction.wait);
    for (int late : instruction.late_waits) absl::StrAppend(&text, " after late ", late);
    absl::StrAppend(&text, "\n");
  }
  return text;
}

absl::Status CheckFits(const MemoryPlan& plan, int64_t capacity_bytes) {
  if (plan.device_bytes <= capacity_bytes) return absl::OkStatus();
  std::string message = absl::StrCat("the device has ", capacity_bytes, " bytes, the plan needs ",
                                     plan.device_bytes, " (", plan.state_bytes,
                                     " of state). Largest at the peak:");
  for (const Contributor& contributor : plan.contributors) {
    absl::StrAppend(&message, "\n  ", contributor.bytes, " bytes  ", contributor.what);
  }
  absl::StrAppend(&message, "\nIt would fit with a device memory of ", plan.device_bytes,
                  " bytes, or with a smaller micro-batch, a shorter sequence or recomputation.");
  return absl::ResourceExhaustedError(message);
}

}  // namespace colossus
