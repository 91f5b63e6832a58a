#include "gemini/tier_objects.h"

#include <algorithm>
#include <tuple>

#include "base/round_up.h"
#include "gemini/step_time.h"

namespace colossus {
namespace {

bool IsState(const StepTrace& trace, int buffer) { return trace.buffers[buffer].role.has_value(); }

class DeviceFinder {
 public:
  DeviceFinder(const StepTrace& trace, const std::vector<Tier>& home,
               const std::vector<bool>& on_host)
      : trace_(trace),
        home_(home),
        on_host_(on_host),
        phases_(FindPhases(trace)),
        open_(trace.buffers.size(), -1),
        below_from_(trace.buffers.size(), -1),
        free_(trace.buffers.size(), 0) {}

  TierObjects Run() {
    for (size_t i = 0; i < trace_.instructions.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i);
      if (at == phases_.begin[i]) EndStates();
      for (const TracedUse& use : trace_.instructions[i].uses) {
        if (IsState(trace_, use.buffer) && home_[use.buffer] == Tier::kDevice) continue;
        if (on_host_[i]) {
          UseOnHost(use, at);
        } else {
          UseOnDevice(use, at);
        }
        free_[use.buffer] = std::max({free_[use.buffer], at + 1, use.until + 1});
        if (use.writes) written_.push_back(use.buffer);
      }
      // By the end of a phase what it wrote is true at home.
      if (at + 1 < phases_.end[i]) continue;
      for (int buffer : written_) free_[buffer] = std::max(free_[buffer], phases_.end[i]);
      written_.clear();
    }
    return std::move(found_);
  }

 private:
  void EndStates() {
    for (int buffer : states_) {
      open_[buffer] = -1;
      below_from_[buffer] = -1;
    }
    states_.clear();
  }

  void UseOnHost(const TracedUse& use, int64_t at) {
    int& open = open_[use.buffer];
    if (open >= 0) {
      if (!use.overwrites) found_.objects[open].wanted_below = true;
      found_.to[open] = std::min(found_.to[open], at - 1);
    }
    open = -1;
    below_from_[use.buffer] = at + 1;
    if (IsState(trace_, use.buffer)) states_.push_back(use.buffer);
  }

  void UseOnDevice(const TracedUse& use, int64_t at) {
    int& open = open_[use.buffer];
    if (open < 0) open = Open(use.buffer, at);
    TierUse tier_use;
    tier_use.at = at;
    tier_use.until = use.until;
    tier_use.writes = use.writes;
    tier_use.overwrites = use.overwrites;
    found_.objects[open].uses.push_back(tier_use);
  }

  int Open(int buffer, int64_t at) {
    const bool state = IsState(trace_, buffer);
    TierObject object;
    object.bytes = trace_.buffers[buffer].bytes;
    object.below = state || below_from_[buffer] >= 0;
    object.wanted_below = state;
    if (state) states_.push_back(buffer);
    found_.objects.push_back(object);
    found_.buffer.push_back(buffer);
    const int64_t since = std::max(phases_.earliest[at], free_[buffer]);
    found_.from.push_back(std::max(below_from_[buffer], state ? since : 0));
    found_.to.push_back(state ? phases_.end[at] - 1
                              : static_cast<int64_t>(trace_.instructions.size()) - 1);
    return static_cast<int>(found_.objects.size()) - 1;
  }

  const StepTrace& trace_;
  const std::vector<Tier>& home_;
  const std::vector<bool>& on_host_;
  const PhaseOf phases_;
  std::vector<int> open_;            // per buffer: its object that goes on, or -1
  std::vector<int64_t> below_from_;  // per buffer: since when the host holds its value; -1: no
  std::vector<int64_t> free_;        // per buffer: when those before are done with it
  std::vector<int> written_;         // in this phase, some more than once
  std::vector<int> states_;          // seen in this phase, some more than once
  TierObjects found_;
};

// What happens to a buffer on the host, at one instruction in this order.
enum class HostEvent : uint8_t { kLoad, kUse, kStore };

struct HostTouch {
  int64_t at;
  HostEvent event;
  bool writes, overwrites;
};

class HostFinder {
 public:
  HostFinder(const StepTrace& trace, const std::vector<Tier>& home,
             const std::vector<bool>& on_host, absl::Span<const Stay> device, int64_t alignment)
      : trace_(trace), home_(home), alignment_(alignment), touches_(trace.buffers.size()) {
    for (const Stay& stay : device) {
      if (stay.load) Touch(stay.buffer, {stay.first, HostEvent::kLoad, false, false});
      if (stay.store_after >= 0) {
        Touch(stay.buffer, {stay.store_after, HostEvent::kStore, true, true});
      }
    }
    for (size_t i = 0; i < trace.instructions.size(); ++i) {
      if (!on_host[i]) continue;
      for (const TracedUse& use : trace.instructions[i].uses) {
        Touch(use.buffer, {static_cast<int64_t>(i), HostEvent::kUse, use.writes, use.overwrites});
      }
    }
  }

  TierObjects Run() {
    const PhaseOf phases = FindPhases(trace_);
    for (size_t b = 0; b < touches_.size(); ++b) {
      std::vector<HostTouch>& touches = touches_[b];
      std::sort(touches.begin(), touches.end(), [](const HostTouch& a, const HostTouch& b) {
        return std::make_pair(a.at, a.event) < std::make_pair(b.at, b.event);
      });
      const bool state = IsState(trace_, static_cast<int>(b));
      for (size_t begin = 0; begin < touches.size();) {
        const int64_t first = touches[begin].at;
        const int64_t from = state ? EarliestRead(touches, begin, phases) : 0;
        const int64_t end =
            state ? phases.end[first] : static_cast<int64_t>(trace_.instructions.size());
        Add(static_cast<int>(b), touches, begin, from, end);
      }
    }
    return std::move(found_);
  }

 private:
  void Touch(int buffer, const HostTouch& touch) {
    if (IsState(trace_, buffer) && home_[buffer] != Tier::kDisk) return;
    touches_[buffer].push_back(touch);
  }

  // Since when a state can be there for touch `next`, the first of its phase.
  static int64_t EarliestRead(const std::vector<HostTouch>& touches, size_t next,
                              const PhaseOf& phases) {
    int64_t from = phases.earliest[touches[next].at];
    for (size_t i = 0; i < next; ++i) {
      const int64_t at = touches[i].at;
      from = std::max(from, touches[i].writes ? phases.end[at] : at + 1);
    }
    return from;
  }

  // One object of the touches from `next` on that come before `end`.
  void Add(int buffer, const std::vector<HostTouch>& touches, size_t& next, int64_t from,
           int64_t end) {
    const bool state = IsState(trace_, buffer);
    TierObject object;
    object.bytes = RoundUp(trace_.buffers[buffer].bytes, alignment_);
    object.below = object.wanted_below = state;
    while (next < touches.size() && touches[next].at < end) {
      TierUse use;
      use.at = use.until = touches[next].at;
      use.overwrites = touches[next].overwrites;
      for (; next < touches.size() && touches[next].at == use.at; ++next) {
        use.writes = use.writes || touches[next].writes;
      }
      object.uses.push_back(use);
    }
    found_.objects.push_back(object);
    found_.buffer.push_back(buffer);
    found_.from.push_back(from);
    found_.to.push_back(end - 1);
  }

  const StepTrace& trace_;
  const std::vector<Tier>& home_;
  const int64_t alignment_;
  std::vector<std::vector<HostTouch>> touches_;  // per buffer
  TierObjects found_;
};

}  // namespace

TierObjects DeviceObjects(const StepTrace& trace, const std::vector<Tier>& home,
                          const std::vector<bool>& on_host) {
  return DeviceFinder(trace, home, on_host).Run();
}

TierObjects HostObjects(const StepTrace& trace, const std::vector<Tier>& home,
                        const std::vector<bool>& on_host, absl::Span<const Stay> device,
                        int64_t alignment) {
  return HostFinder(trace, home, on_host, device, alignment).Run();
}

std::vector<Stay> StaysOf(const TierObjects& objects, absl::Span<const TierStay> stays, Tier tier) {
  std::vector<Stay> result;
  for (const TierStay& stay : stays) {
    result.push_back(
        {objects.buffer[stay.object], tier, stay.first, stay.last, stay.load, stay.store_after});
  }
  std::sort(result.begin(), result.end(), [](const Stay& a, const Stay& b) {
    return std::tie(a.buffer, a.first) < std::tie(b.buffer, b.first);
  });
  return result;
}

}  // namespace colossus
