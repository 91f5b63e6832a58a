#include "tensor/exec/testing/random_placer.h"

#include <algorithm>
#include <random>
#include <vector>

#include "absl/status/status.h"

namespace colossus {
namespace {

constexpr int kMostTries = 30;

struct Use {
  int64_t t = 0, until = 0;
  bool on_host = false, writes = false, overwrites = false;
};

// What the host's copy of a buffer takes part in.
struct HostEvent {
  int64_t t = 0;
  bool changes = false;  // a use that writes, or a store from the device
  bool needs = false;    // finds the value there
};

class Maker {
 public:
  Maker(const StepTrace& trace, bool disk, uint64_t seed)
      : trace_(trace), disk_(disk), random_(seed), uses_(trace.buffers.size()) {}

  Placement Make() {
    ChooseHomes();
    ChooseHost();
    for (size_t t = 0; t < trace_.instructions.size(); ++t) {
      for (const TracedUse& use : trace_.instructions[t].uses) {
        uses_[use.buffer].push_back({static_cast<int64_t>(t), use.until, placement_.on_host[t],
                                     use.writes, use.overwrites});
      }
    }
    for (size_t b = 0; b < trace_.buffers.size(); ++b) AddStays(static_cast<int>(b));
    return std::move(placement_);
  }

 private:
  bool Chance(int percent) { return random_() % 100 < static_cast<uint64_t>(percent); }
  int64_t Between(int64_t first, int64_t last) {
    if (last <= first) return first;
    return first + static_cast<int64_t>(random_() % static_cast<uint64_t>(last - first + 1));
  }
  bool IsState(int b) const { return trace_.buffers[b].role.has_value(); }

  void ChooseHomes() {
    for (size_t b = 0; b < trace_.buffers.size(); ++b) {
      const bool state = IsState(static_cast<int>(b));
      const Tier home = !state || Chance(25)  ? Tier::kDevice
                        : disk_ && Chance(50) ? Tier::kDisk
                                              : Tier::kHost;
      placement_.home.push_back(trace_.buffers[b].home.value_or(home));
    }
  }

  void ChooseHost() {
    for (const TracedInstruction& instruction : trace_.instructions) {
      bool may = instruction.may_run_on_host;
      for (const TracedUse& use : instruction.uses) {
        may &= !IsState(use.buffer) || placement_.home[use.buffer] != Tier::kDevice;
      }
      placement_.on_host.push_back(may && Chance(40));
    }
  }

  size_t PhaseOf(int64_t t) const {
    return static_cast<size_t>(
        std::upper_bound(trace_.phase_end.begin(), trace_.phase_end.end(), static_cast<size_t>(t)) -
        trace_.phase_end.begin());
  }
  // Of the phase, or of those it follows.
  int64_t PhaseBegin(int64_t t) const {
    size_t phase = PhaseOf(t);
    while (Follows(trace_, phase)) --phase;
    return phase == 0 ? 0 : static_cast<int64_t>(trace_.phase_end[phase - 1]);
  }
  // Stays of buffer `b` that cover `t` end before this.
  int64_t Limit(int b, int64_t t) const {
    return static_cast<int64_t>(IsState(b) ? trace_.phase_end[PhaseOf(t)]
                                           : trace_.instructions.size());
  }
  bool MaySpan(int b, int64_t t, int64_t later) const {
    return !IsState(b) || PhaseOf(t) == PhaseOf(later);
  }

  void AddStays(int b) {
    if (IsState(b) && placement_.home[b] == Tier::kDevice) return;
    events_.clear();
    AddDeviceStays(b);
    for (const Use& use : uses_[b]) {
      if (use.on_host) events_.push_back({use.t, use.writes, !use.overwrites});
    }
    if (IsState(b) && placement_.home[b] == Tier::kHost) return;
    // At one instruction: loads of the device, the use, stores.
    std::stable_sort(events_.begin(), events_.end(),
                     [](const HostEvent& x, const HostEvent& y) { return x.t < y.t; });
    AddHostStays(b);
  }

  // ---- Device.

  void AddDeviceStays(int b) {
    const std::vector<Use>& uses = uses_[b];
    int64_t free = 0;  // the first instruction after all stays so far
    for (size_t u = 0; u < uses.size(); ++u) {
      if (uses[u].on_host) continue;
      size_t last = u;
      int64_t until = uses[u].until;
      bool host_wrote = false;
      for (size_t v = u + 1; v < uses.size() && MaySpan(b, uses[u].t, uses[v].t); ++v) {
        if (uses[v].on_host) {
          host_wrote |= uses[v].writes;
          continue;
        }
        if (uses[v].t > until && (host_wrote || !Chance(60))) break;
        last = v;
        until = std::max(until, uses[v].until);
      }
      free = AddDeviceStay(b, u, last, until, free);
      while (u < last) ++u;
    }
  }

  // Of uses [first, last] that are not on the host.
  int64_t AddDeviceStay(int b, size_t first, size_t last, int64_t until, int64_t free) {
    const std::vector<Use>& uses = uses_[b];
    Stay stay;
    stay.buffer = b;
    int64_t begin = first == 0 ? 0 : std::max(free, uses[first - 1].t + 1);
    if (IsState(b)) begin = std::max(begin, PhaseBegin(uses[first].t));
    stay.first = Chance(50) ? uses[first].t : Between(begin, uses[first].t);
    stay.load = !uses[first].overwrites;
    int64_t end = Limit(b, uses[first].t) - 1;
    if (last + 1 < uses.size()) end = std::min(end, uses[last + 1].t - 1);
    stay.last = Chance(50) ? until : Between(until, end);
    if (stay.load) events_.push_back({stay.first, false, true});
    Store(b, first, last, stay);
    placement_.stays.push_back(stay);
    return stay.last + 1;
  }

  void Store(int b, size_t first, size_t last, Stay& stay) {
    const std::vector<Use>& uses = uses_[b];
    int64_t wrote = -1, consumer = stay.last + 1;
    for (size_t u = first; u <= last; ++u) {
      if (!uses[u].on_host && uses[u].writes) wrote = uses[u].t;
    }
    if (wrote < 0) return;
    bool needed = IsState(b);
    for (size_t u = first; u < uses.size(); ++u) {
      if (uses[u].t <= wrote || (u <= last && !uses[u].on_host)) continue;
      needed |= !uses[u].overwrites;
      if (uses[u].on_host) consumer = std::min(consumer, uses[u].t);
      break;
    }
    if (!needed) return;
    stay.store_after = Between(wrote, std::min(stay.last, consumer - 1));
    events_.push_back({stay.store_after, true, false});
  }

  // ---- Host.

  void AddHostStays(int b) {
    bool below = IsState(b);  // the disk's copy is the value
    for (size_t e = 0; e < events_.size();) {
      size_t last = e;
      while (last + 1 < events_.size() && !MaySplit(b, events_[last], events_[last + 1])) ++last;
      AddHostStay(b, e, last, below);
      e = last + 1;
    }
  }

  bool MaySplit(int b, const HostEvent& event, const HostEvent& next) {
    if (!MaySpan(b, event.t, next.t)) return true;
    if (next.t == event.t || (next.needs && !disk_)) return false;
    return Chance(40);
  }

  void AddHostStay(int b, size_t first, size_t last, bool& below) {
    Stay stay;
    stay.buffer = b;
    stay.tier = Tier::kHost;
    const int64_t before = first == 0 ? -1 : placement_.stays.back().last;
    int64_t begin = std::max(before + 1, IsState(b) ? PhaseBegin(events_[first].t) : 0);
    stay.load = events_[first].needs;
    // A value is on disk only once it was written there.
    if (stay.load) begin = std::max(begin, first == 0 ? begin : events_[first - 1].t + 1);
    stay.first = Chance(50) ? events_[first].t : Between(begin, events_[first].t);
    int64_t end = Limit(b, events_[first].t) - 1;
    if (last + 1 < events_.size()) end = std::min(end, events_[last + 1].t - 1);
    stay.last = Chance(50) ? events_[last].t : Between(events_[last].t, end);
    int64_t changed = -1;
    for (size_t e = first; e <= last; ++e) {
      if (events_[e].changes) changed = events_[e].t;
    }
    if (changed >= 0) below = false;
    const bool next_needs = last + 1 < events_.size() && events_[last + 1].needs;
    if (!below && (IsState(b) || next_needs)) {
      int64_t stale = stay.last + 1;  // when the device has written a newer value
      for (const Use& use : uses_[b]) {
        if (!use.on_host && use.writes && use.t > changed) stale = std::min(stale, use.t);
      }
      stay.store_after = Between(changed, stale - 1);
      below = true;
    }
    placement_.stays.push_back(stay);
  }

  const StepTrace& trace_;
  const bool disk_;
  std::mt19937_64 random_;
  std::vector<std::vector<Use>> uses_;  // by buffer
  std::vector<HostEvent> events_;       // of the present buffer
  Placement placement_;
};

Placement EverythingOnTheDevice(const StepTrace& trace) {
  Placement placement;
  placement.home.assign(trace.buffers.size(), Tier::kDevice);
  placement.on_host.assign(trace.instructions.size(), false);
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    if (trace.buffers[b].role.has_value()) continue;
    const int64_t last = static_cast<int64_t>(trace.instructions.size()) - 1;
    placement.stays.push_back({static_cast<int>(b), Tier::kDevice, 0, last, false, -1});
  }
  return placement;
}

}  // namespace

absl::StatusOr<Placement> RandomPlacer::Place(const StepTrace& trace,
                                              const TierBytes& tiers) const {
  for (int tried = 0; tried < kMostTries; ++tried) {
    const uint64_t seed = seed_ * kMostTries + static_cast<uint64_t>(tried);
    Placement placement = Maker(trace, tiers.disk > 0, seed).Make();
    if (CheckPlacement(trace, placement).ok()) return placement;
  }
  const Placement plain = EverythingOnTheDevice(trace);
  if (CheckPlacement(trace, plain).ok()) return plain;
  return absl::ResourceExhaustedError("no luck with these homes");
}

}  // namespace colossus
