#include "tensor/exec/plan_offsets.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "base/round_up.h"
#include "tensor/exec/interval_allocator.h"

namespace colossus {
namespace {

constexpr size_t kContributors = 5;

// Staging lives until its phase ends, when all copies have run: one per feed and fetch, by draft.
struct Staging {
  std::vector<LiveBuffer> buffers;
  std::vector<size_t> owners;  // per buffer: its draft
  int64_t bytes = 0;
};

Staging FindStaging(const StepStorage& all) {
  Staging staging;
  size_t phase = 0;
  for (size_t t = 0; t < all.drafts.size(); ++t) {
    const Instruction& instruction = all.drafts[t].instruction;
    while (all.phase_end[phase] <= t) ++phase;
    if (instruction.kind != InstructionKind::kFeed && instruction.kind != InstructionKind::kFetch) {
      continue;
    }
    staging.buffers.push_back({AlignedBytes(instruction.type.bytes()), static_cast<int64_t>(t),
                               static_cast<int64_t>(all.phase_end[phase]) - 1, 0});
    staging.owners.push_back(t);
  }
  staging.bytes = AssignOffsets(staging.buffers);
  return staging;
}

class Planner {
 public:
  Planner(StepStorage all, const TierBytes* limits)
      : all_(std::move(all)), limits_(limits), offset_of_(all_.storages.size(), 0) {}

  MemoryPlan Run() {
    plan_.phase_end = all_.phase_end;
    plan_.follows = all_.follows;
    PlaceStaging();
    for (const StateHome& home : all_.states) plan_.states.push_back(home);
    const bool disk = std::any_of(all_.storages.begin(), all_.storages.end(),
                                  [](const Storage& s) { return s.tier == Tier::kDisk; });
    plan_.state_bytes = PlaceTier(Tier::kDevice, 0, kBufferAlignment, plan_.device_bytes);
    const int64_t unit = disk ? kDiskAlignment : kBufferAlignment;
    plan_.host_bytes = plan_.staging_bytes;
    plan_.host_state_bytes =
        PlaceTier(Tier::kHost, RoundUp(plan_.staging_bytes, unit), unit, plan_.host_bytes);
    plan_.disk_state_bytes = PlaceTier(Tier::kDisk, 0, kDiskAlignment, plan_.disk_bytes);
    SortStates();
    Emit();
    plan_.contributors = Contributors(Tier::kDevice);
    plan_.host_contributors = Contributors(Tier::kHost);
    plan_.disk_contributors = Contributors(Tier::kDisk);
    return std::move(plan_);
  }

 private:
  static bool Before(const StateHome& a, const StateHome& b) {
    return std::make_pair(a.info.role, a.type.dtype) < std::make_pair(b.info.role, b.type.dtype);
  }

  void Place(int storage, int64_t offset, int64_t& end) {
    offset_of_[storage] = offset;
    if (all_.storages[storage].bytes == 0) return;
    end = std::max(end, offset + all_.storages[storage].bytes);
  }

  // From `begin` on: homes, then buffers. Returns the bytes of the homes; `end`: one past the last
  // byte of the tier.
  int64_t PlaceTier(Tier tier, int64_t begin, int64_t unit, int64_t& end) {
    std::vector<size_t> order(all_.states.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return Before(all_.states[a], all_.states[b]); });
    const int64_t homes_unit = tier == Tier::kDisk ? unit : kBufferAlignment;
    int64_t at = begin;
    for (size_t i : order) {
      if (all_.states[i].range.tier != tier) continue;
      plan_.states[i].range.offset = at;
      Place(all_.state_storage[i], at, end);
      at += RoundUp(plan_.states[i].range.bytes, homes_unit);
    }
    const int64_t homes = at - begin;
    PlaceBuffers(tier, RoundUp(at, unit), unit, end);
    return homes;
  }

  void PlaceBuffers(Tier tier, int64_t begin, int64_t unit, int64_t& end) {
    std::vector<LiveBuffer> buffers;
    std::vector<int> owners;
    for (size_t s = 0; s < all_.storages.size(); ++s) {
      const Storage& storage = all_.storages[s];
      if (storage.tier != tier || !all_.IsBuffer(storage)) continue;
      buffers.push_back({RoundUp(storage.bytes, unit), storage.first, storage.last, 0});
      owners.push_back(static_cast<int>(s));
    }
    if (limits_ == nullptr) {
      AssignOffsets(buffers);
    } else {
      AssignOffsetsWithin(buffers, Limit(tier) - begin);
    }
    for (size_t b = 0; b < buffers.size(); ++b) Place(owners[b], begin + buffers[b].offset, end);
  }

  int64_t Limit(Tier tier) const {
    if (tier == Tier::kDevice) return limits_->device;
    return tier == Tier::kHost ? limits_->host : limits_->disk;
  }

  void PlaceStaging() {
    const Staging staging = FindStaging(all_);
    for (size_t b = 0; b < staging.buffers.size(); ++b) {
      Instruction& instruction = all_.drafts[staging.owners[b]].instruction;
      instruction.staging = {staging.buffers[b].offset, instruction.type.bytes(), Tier::kHost};
    }
    plan_.staging_bytes = staging.bytes;
  }

  void SortStates() { std::stable_sort(plan_.states.begin(), plan_.states.end(), Before); }

  BufferRange RangeOf(int storage) const {
    return {offset_of_[all_.Root(storage)] + all_.OffsetInRoot(storage),
            all_.storages[storage].bytes, all_.storages[storage].tier};
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
  int64_t FindPeak(Tier tier) const {
    std::vector<int64_t> change(all_.drafts.size() + 1, 0);
    for (const Storage& storage : all_.storages) {
      if (storage.tier != tier || !all_.IsBuffer(storage)) continue;
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

  std::vector<Contributor> Contributors(Tier tier) const {
    const int64_t peak = FindPeak(tier);
    std::vector<Contributor> largest;
    for (const Storage& storage : all_.storages) {
      if (storage.tier != tier) continue;
      bool alive = all_.IsBuffer(storage) && storage.first <= peak && peak <= storage.last;
      if (storage.home >= 0 || alive) largest.push_back({storage.what, storage.bytes});
    }
    std::stable_sort(largest.begin(), largest.end(),
                     [](const Contributor& a, const Contributor& b) { return a.bytes > b.bytes; });
    if (largest.size() > kContributors) largest.resize(kContributors);
    return largest;
  }

  StepStorage all_;
  const TierBytes* const limits_;
  std::vector<int64_t> offset_of_;  // per storage that is placed itself
  MemoryPlan plan_;
};

}  // namespace

MemoryPlan PlanOffsets(StepStorage storage, const TierBytes* limits) {
  return Planner(std::move(storage), limits).Run();
}

int64_t FeedStagingBytes(const StepStorage& storage) { return FindStaging(storage).bytes; }

}  // namespace colossus
