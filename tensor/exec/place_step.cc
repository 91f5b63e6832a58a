#include "tensor/exec/place_step.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tensor/exec/moved_kinds.h"

namespace colossus {
namespace {

constexpr size_t kTiers = 3;

size_t IndexOf(Tier tier) { return static_cast<size_t>(tier); }
Tier Below(Tier tier) { return static_cast<Tier>(IndexOf(tier) + 1); }

class StepPlacer {
 public:
  StepPlacer(const TracedStep& traced, const Placement& placement, const StepStorage& before)
      : traced_(traced),
        placement_(placement),
        before_(before),
        moved_(MovedKinds(traced.trace)),
        there_(traced.root.size(), {-1, -1, -1}),
        stay_storage_(placement.stays.size(), -1),
        begins_(before.drafts.size()),
        stores_(begins_),
        ends_(begins_) {}

  StepStorage Run() {
    SortStays();
    AddHomes();
    size_t t = 0;
    for (size_t end : before_.phase_end) {
      for (; t < end; ++t) PushAround(t);
      after_.phase_end.push_back(after_.drafts.size());
    }
    return std::move(after_);
  }

 private:
  const StepTrace& trace() const { return traced_.trace; }
  int64_t now() const { return static_cast<int64_t>(after_.drafts.size()); }
  const Storage& RootOf(int buffer) const { return before_.storages[traced_.root[buffer]]; }

  // Per stay: the first use of its buffer that is not before it.
  std::vector<int64_t> FindNeeds() const {
    std::vector<std::vector<int64_t>> uses(traced_.root.size());
    for (size_t t = 0; t < trace().instructions.size(); ++t) {
      for (const TracedUse& use : trace().instructions[t].uses) {
        uses[use.buffer].push_back(static_cast<int64_t>(t));
      }
    }
    std::vector<int64_t> needs;
    for (const Stay& stay : placement_.stays) {
      const std::vector<int64_t>& of = uses[stay.buffer];
      auto use = std::lower_bound(of.begin(), of.end(), stay.first);
      needs.push_back(use == of.end() ? INT64_MAX : *use);
    }
    return needs;
  }

  // Higher tiers load from lower ones, and store to them before those store further down. Loads
  // that begin together run in the order in which they are needed.
  void SortStays() {
    const std::vector<int64_t> needs = FindNeeds();
    std::vector<size_t> order(placement_.stays.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return needs[a] < needs[b]; });
    for (Tier tier : {Tier::kHost, Tier::kDevice}) {
      for (size_t s : order) {
        const Stay& stay = placement_.stays[s];
        if (stay.tier == tier) begins_[stay.first].push_back(s);
        if (stay.tier == tier) ends_[stay.last].push_back(s);
      }
    }
    for (Tier tier : {Tier::kDevice, Tier::kHost}) {
      for (size_t s = 0; s < placement_.stays.size(); ++s) {
        const Stay& stay = placement_.stays[s];
        if (stay.tier == tier && stay.store_after >= 0) stores_[stay.store_after].push_back(s);
      }
    }
  }

  int NewStorage(std::string what, Tier tier, int64_t bytes) {
    Storage added;
    added.what = std::move(what);
    added.tier = tier;
    added.bytes = bytes;
    after_.storages.push_back(std::move(added));
    return static_cast<int>(after_.storages.size()) - 1;
  }

  void AddHomes() {
    after_.states = before_.states;
    after_.follows = before_.follows;
    for (size_t i = 0; i < before_.states.size(); ++i) {
      const int buffer = traced_.buffer[before_.state_storage[i]];
      const Tier tier = placement_.home[buffer];
      const int64_t bytes = RootOf(buffer).bytes;
      const int home = NewStorage(before_.states[i].info.name, tier,
                                  tier == Tier::kDisk ? DiskBytes(bytes) : bytes);
      after_.storages[home].home = static_cast<int>(i);
      after_.states[i].range.tier = tier;
      after_.state_storage.push_back(home);
      there_[buffer][IndexOf(tier)] = home;
    }
  }

  // Its bytes, as a part of the storage that holds the buffer on `tier`.
  int Part(int buffer, Tier tier, int64_t offset, int64_t bytes, const std::string& what) {
    int& whole = there_[buffer][IndexOf(tier)];
    if (whole < 0) {
      CHECK(tier == Tier::kDisk) << what;
      whole = NewStorage(RootOf(buffer).what, tier, DiskBytes(RootOf(buffer).bytes));
    }
    if (offset == 0 && bytes == after_.storages[whole].bytes) return whole;
    const int of = whole;
    const int part = NewStorage(what, tier, bytes);
    after_.storages[part].merged_into = of;
    after_.storages[part].offset = offset;
    return part;
  }

  int Placed(int storage, Tier tier) {
    return Part(traced_.buffer[storage], tier, before_.OffsetInRoot(storage),
                before_.storages[storage].bytes, before_.storages[storage].what);
  }

  void KeepAt(int storage, int64_t draft) {
    Storage& root = after_.storages[after_.Root(storage)];
    if (root.first < 0) root.first = draft;
    root.last = std::max(root.last, draft);
  }

  void Push(Draft draft) {
    for (int s : draft.operands) KeepAt(s, now());
    for (int s : draft.results) KeepAt(s, now());
    if (draft.workspace >= 0) KeepAt(draft.workspace, now());
    after_.drafts.push_back(std::move(draft));
  }

  // A copy of a whole buffer, beside instruction `t`. Where the disk takes part, of whole blocks.
  void PushMove(InstructionKind kind, int buffer, Tier from, Tier to, size_t t) {
    const Storage& root = RootOf(buffer);
    const bool disk = from == Tier::kDisk || to == Tier::kDisk;
    const int64_t bytes = disk ? DiskBytes(root.bytes) : root.bytes;
    Draft move;
    move.instruction.kind = kind;
    move.instruction.call = before_.drafts[t].instruction.call;
    move.instruction.name = root.what;
    move.instruction.moved = moved_[buffer];
    move.operands = {Part(buffer, from, 0, bytes, root.what)};
    move.results = {Part(buffer, to, 0, bytes, root.what)};
    Push(std::move(move));
  }

  void Begin(size_t s, size_t t) {
    const Stay& stay = placement_.stays[s];
    const bool disk = stay.tier == Tier::kHost && (stay.load || stay.store_after >= 0);
    const Storage& root = RootOf(stay.buffer);
    stay_storage_[s] = NewStorage(root.what, stay.tier, disk ? DiskBytes(root.bytes) : root.bytes);
    there_[stay.buffer][IndexOf(stay.tier)] = stay_storage_[s];
    if (!stay.load) return;
    PushMove(stay.tier == Tier::kDevice ? InstructionKind::kLoad : InstructionKind::kReadDisk,
             stay.buffer, Below(stay.tier), stay.tier, t);
  }

  void PushInstruction(size_t t) {
    Draft draft = before_.drafts[t];
    const Tier tier = placement_.on_host[t] ? Tier::kHost : Tier::kDevice;
    draft.instruction.wait = -1;
    draft.instruction.on_host = tier == Tier::kHost;
    draft.instruction.traced = static_cast<int>(t);
    for (int& s : draft.operands) s = Placed(s, tier);
    for (int& s : draft.results) s = Placed(s, tier);
    if (draft.workspace >= 0) draft.workspace = Placed(draft.workspace, tier);
    Push(std::move(draft));
  }

  void PushAround(size_t t) {
    for (size_t s : begins_[t]) Begin(s, t);
    for (size_t s : begins_[t]) KeepAt(stay_storage_[s], now());
    for (size_t s : ends_[t]) KeepAt(stay_storage_[s], now());
    PushInstruction(t);
    for (size_t s : stores_[t]) {
      const Stay& stay = placement_.stays[s];
      PushMove(stay.tier == Tier::kDevice ? InstructionKind::kStore : InstructionKind::kWriteDisk,
               stay.buffer, stay.tier, Below(stay.tier), t);
    }
    for (size_t s : ends_[t]) {
      const Stay& stay = placement_.stays[s];
      there_[stay.buffer][IndexOf(stay.tier)] = -1;
    }
  }

  const TracedStep& traced_;
  const Placement& placement_;
  const StepStorage& before_;
  StepStorage after_;
  const std::vector<Moved> moved_;              // by buffer
  std::vector<std::array<int, kTiers>> there_;  // by buffer and tier: the present storage
  std::vector<int> stay_storage_;               // by stay
  std::vector<std::vector<size_t>> begins_, stores_, ends_;  // by instruction: stays
};

}  // namespace

StepStorage PlaceStep(const TracedStep& traced, const Placement& placement,
                      const StepStorage& storage) {
  return StepPlacer(traced, placement, storage).Run();
}

}  // namespace colossus
