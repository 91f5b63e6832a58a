#include "gemini/traffic.h"

#include <algorithm>

#include "base/round_up.h"
#include "gemini/step_time.h"
#include "gemini/tier_objects.h"
#include "tensor/exec/moved_kinds.h"

namespace colossus {
namespace {

// Most that a set of instants can force out and in again together: at each of them the gaps over it
// that began at the chosen one before it or later, so that no gap counts twice.
class ReloadBound {
 public:
  ReloadBound(int64_t instructions) : gaps_(instructions + 1) {}

  // The value must survive the instants between `from` and `to`, exclusive.
  void AddGap(int64_t from, int64_t to, int64_t bytes) {
    if (to - from < 2) return;
    gaps_[from + 1].begin.push_back({from, bytes});
    gaps_[to].end.push_back({from, bytes});
  }

  // `room`: per instant. Result per instant: reloads that the chosen instants up to it force.
  // `most`, if asked for: the largest of any one instant.
  std::vector<int64_t> Run(const std::vector<int64_t>& room, int64_t* most = nullptr) const {
    std::vector<int64_t> best(room.size() + 1, 0);  // best[t + 1]: up to t
    std::vector<Gap> open;                          // over t, by where they begin
    if (most != nullptr) *most = 0;
    for (size_t t = 0; t < room.size(); ++t) {
      for (const Gap& gap : gaps_[t].end) open.erase(std::find(open.begin(), open.end(), gap));
      open.insert(open.end(), gaps_[t].begin.begin(), gaps_[t].begin.end());
      best[t + 1] = best[t];
      const int64_t space = std::max<int64_t>(0, room[t]);
      int64_t larger = 0, others = 0;  // than the space; values survive whole or not at all
      for (auto gap = open.rbegin(); gap != open.rend(); ++gap) {
        (gap->bytes > space ? larger : others) += gap->bytes;
        const int64_t missing = larger + std::max<int64_t>(0, others - space);
        best[t + 1] = std::max(best[t + 1], best[gap->from + 1] + missing);
        if (most != nullptr) *most = std::max(*most, missing);
      }
    }
    best.erase(best.begin());
    return best;
  }

 private:
  struct Gap {
    int64_t from, bytes;
    bool operator==(const Gap& other) const { return from == other.from && bytes == other.bytes; }
  };
  struct At {
    std::vector<Gap> begin, end;
  };
  std::vector<At> gaps_;  // per instant
};

bool Writes(const TierUse& use) { return use.writes || use.overwrites; }

// Number of the last use that writes; 0 if none does.
size_t LastWrite(const TierObject& object) {
  size_t last = object.uses.size();
  while (last > 0 && !Writes(object.uses[last - 1])) --last;
  return last == 0 ? 0 : last - 1;
}

class Bounder {
 public:
  Bounder(const StepTrace& trace, const Placement& placement, int64_t device_bytes,
          absl::Span<const int64_t> copied_bytes)
      : trace_(trace),
        placement_(placement),
        copied_bytes_(copied_bytes),
        objects_(DeviceObjects(trace, placement.home, placement.on_host)),
        kinds_(MovedKinds(trace)),
        phase_(PhaseNumbers(trace.phase_end)),
        bounds_(trace.phase_end.size()) {
    room_ = device_bytes;
    for (size_t b = 0; b < trace.buffers.size(); ++b) {
      if (trace.buffers[b].role.has_value() && placement.home[b] == Tier::kDevice) {
        room_ -= trace.buffers[b].bytes;
      }
    }
  }

  std::vector<TrafficBound> Run() {
    Compulsory();
    Reloads(/*activations=*/false);
    Reloads(/*activations=*/true);
    return std::move(bounds_);
  }

 private:
  bool IsActivation(int buffer) const { return kinds_[buffer] == Moved::kActivations; }

  // What a copy of the object carries.
  int64_t CopiedBytes(size_t o) const {
    return copied_bytes_.empty() ? objects_.objects[o].bytes : copied_bytes_[objects_.buffer[o]];
  }

  // What comes in or goes out with all the room in the world.
  void Compulsory() {
    for (size_t o = 0; o < objects_.objects.size(); ++o) {
      const TierObject& object = objects_.objects[o];
      const bool activation = IsActivation(objects_.buffer[o]);
      if (object.below && !object.uses.front().overwrites) {
        TrafficBound& bound = bounds_[phase_[object.uses.front().at]];
        (activation ? bound.activations_to_device : bound.model_to_device) += CopiedBytes(o);
      }
      int64_t written = object.below ? -1 : object.uses.front().at;
      for (const TierUse& use : object.uses) {
        if (Writes(use)) written = use.at;
      }
      if (!object.wanted_below || written < 0) continue;
      TrafficBound& bound = bounds_[phase_[written]];
      (activation ? bound.activations_to_host : bound.model_to_host) += CopiedBytes(o);
    }
  }

  // Room at each instant for what nothing uses then: beside what is in use and, for model data,
  // the activations that the placement has there.
  std::vector<int64_t> Room(bool activations) const {
    std::vector<int64_t> change(trace_.instructions.size() + 1, 0);
    auto take = [&](int64_t first, int64_t last, int64_t bytes) {
      change[first] -= bytes;
      change[last + 1] += bytes;
    };
    if (!activations) {
      for (const Stay& stay : placement_.stays) {
        if (stay.tier != Tier::kDevice || !IsActivation(stay.buffer)) continue;
        take(stay.first, stay.last, trace_.buffers[stay.buffer].bytes);
      }
    }
    for (size_t o = 0; o < objects_.objects.size(); ++o) {
      if (!activations && IsActivation(objects_.buffer[o])) continue;
      int64_t held = -1;
      for (const TierUse& use : objects_.objects[o].uses) {
        const int64_t first = std::max(use.at, held + 1);
        held = std::max({held, use.at, use.until});
        if (first <= held) take(first, held, objects_.objects[o].bytes);
      }
    }
    std::vector<int64_t> room(trace_.instructions.size());
    int64_t now = room_;
    for (size_t t = 0; t < room.size(); ++t) room[t] = now += change[t];
    return room;
  }

  // What is forced up to the end of each phase, as the phase's own.
  void Add(const std::vector<int64_t>& forced, int64_t TrafficBound::*bytes) {
    int64_t before = 0;
    for (size_t p = 0; p < bounds_.size(); ++p) {
      const int64_t end = static_cast<int64_t>(trace_.phase_end[p]);
      const int64_t now = end == 0 ? 0 : forced[end - 1];
      bounds_[p].*bytes += now - before;
      before = now;
    }
  }

  void Reloads(bool activations) {
    ReloadBound bound(static_cast<int64_t>(trace_.instructions.size()));
    ReloadBound made_there(bound);  // of values that the host does not have
    ReloadBound written(bound);     // of values just written, of which that is not the last time
    for (size_t o = 0; o < objects_.objects.size(); ++o) {
      if (IsActivation(objects_.buffer[o]) != activations) continue;
      const TierObject& object = objects_.objects[o];
      const size_t last_write = LastWrite(object);
      int64_t held = -1;
      bool made = !object.below;
      for (size_t u = 0; u < object.uses.size(); ++u) {
        if (u > 0 && !object.uses[u].overwrites) {
          bound.AddGap(held, object.uses[u].at, CopiedBytes(o));
          if (made) made_there.AddGap(held, object.uses[u].at, CopiedBytes(o));
          if (Writes(object.uses[u - 1]) && (u <= last_write || !object.wanted_below)) {
            written.AddGap(held, object.uses[u].at, CopiedBytes(o));
          }
        }
        made = made || Writes(object.uses[u]);
        held = std::max({held, object.uses[u].at, object.uses[u].until});
      }
    }
    const std::vector<int64_t> room = Room(activations);
    Add(bound.Run(room),
        activations ? &TrafficBound::activations_to_device : &TrafficBound::model_to_device);
    if (!activations) return Add(written.Run(room), &TrafficBound::model_to_host);
    // What comes in again has gone out at least once, perhaps because the host needs it anyway.
    if (bounds_.empty()) return;
    int64_t most = 0;
    made_there.Run(room, &most);
    for (const TrafficBound& phase : bounds_) most -= phase.activations_to_host;
    bounds_[0].activations_to_host += std::max<int64_t>(0, most);
  }

  const StepTrace& trace_;
  const Placement& placement_;
  const absl::Span<const int64_t> copied_bytes_;  // by buffer
  const TierObjects objects_;
  const std::vector<Moved> kinds_;
  const std::vector<int> phase_;
  int64_t room_ = 0;  // device bytes without homes
  std::vector<TrafficBound> bounds_;
};

}  // namespace

TrafficBound& TrafficBound::operator+=(const TrafficBound& other) {
  model_to_device += other.model_to_device;
  model_to_host += other.model_to_host;
  activations_to_device += other.activations_to_device;
  activations_to_host += other.activations_to_host;
  return *this;
}

int64_t ActivationBytes(const TierTraffic& moved) {
  constexpr size_t kActivations = static_cast<size_t>(Moved::kActivations);
  return moved.host_to_device[kActivations] + moved.device_to_host[kActivations];
}

int64_t ModelBytes(const TierTraffic& moved) {
  return Total(moved.host_to_device) + Total(moved.device_to_host) - ActivationBytes(moved);
}

std::vector<TierTraffic> PlacedTraffic(const StepTrace& trace, const Placement& placement,
                                       int64_t disk_alignment) {
  const std::vector<Moved> kinds = MovedKinds(trace);
  const std::vector<int> phase = PhaseNumbers(trace.phase_end);
  std::vector<TierTraffic> traffic(trace.phase_end.size());
  for (const Stay& stay : placement.stays) {
    const size_t kind = static_cast<size_t>(kinds[stay.buffer]);
    const bool device = stay.tier == Tier::kDevice;
    int64_t bytes = trace.buffers[stay.buffer].bytes;
    if (!device) bytes = RoundUp(bytes, disk_alignment);
    if (stay.load) {
      TierTraffic& in = traffic[phase[stay.first]];
      (device ? in.host_to_device : in.disk_read)[kind] += bytes;
    }
    if (stay.store_after >= 0) {
      TierTraffic& out = traffic[phase[stay.store_after]];
      (device ? out.device_to_host : out.disk_written)[kind] += bytes;
    }
  }
  return traffic;
}

std::vector<TrafficBound> BoundTraffic(const StepTrace& trace, const Placement& placement,
                                       int64_t device_bytes,
                                       absl::Span<const int64_t> copied_bytes) {
  return Bounder(trace, placement, device_bytes, copied_bytes).Run();
}

std::vector<int64_t> CountEvictions(const StepTrace& trace, const Placement& placement) {
  const std::vector<int> phase = PhaseNumbers(trace.phase_end);
  std::vector<int64_t> evictions(trace.phase_end.size(), 0);
  for (size_t s = 1; s < placement.stays.size(); ++s) {
    const Stay &stay = placement.stays[s], &before = placement.stays[s - 1];
    const bool again = stay.tier == Tier::kDevice && before.tier == Tier::kDevice && stay.load &&
                       stay.buffer == before.buffer;
    const bool state = trace.buffers[stay.buffer].role.has_value();
    if (again && (!state || phase[stay.first] == phase[before.first])) {
      ++evictions[phase[stay.first]];
    }
  }
  return evictions;
}

}  // namespace colossus
