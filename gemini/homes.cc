#include "gemini/homes.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "gemini/step_time.h"

namespace colossus {
namespace {

// Below it, whoever needs a buffer on the host decides where it is made.
constexpr int64_t kSmallBytes = 1 << 16;

bool IsState(const StepTrace& trace, int buffer) { return trace.buffers[buffer].role.has_value(); }

class UnionFind {
 public:
  explicit UnionFind(size_t size) : parent_(size) { std::iota(parent_.begin(), parent_.end(), 0); }
  int Find(int x) {
    while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  void Join(int x, int y) { parent_[Find(x)] = Find(y); }

 private:
  std::vector<int> parent_;
};

// Bytes of copies that a device home saves, per buffer: a load and, if written, a store for each
// phase that uses it on the device, and, of a parameter with an update, its gradient.
std::vector<int64_t> SavedBytes(const StepTrace& trace) {
  std::vector<int64_t> saved(trace.buffers.size(), 0);
  std::vector<int64_t> seen(trace.buffers.size(), -1), wrote(seen);
  const PhaseOf phases = FindPhases(trace);
  for (size_t i = 0; i < trace.instructions.size(); ++i) {
    const TracedInstruction& instruction = trace.instructions[i];
    for (const TracedUse& use : instruction.uses) {
      if (!IsState(trace, use.buffer)) continue;
      const int64_t bytes = trace.buffers[use.buffer].bytes;
      if (instruction.may_run_on_host) {
        // Its update: a gradient of about its size need not leave.
        if (trace.buffers[use.buffer].role == Role::kParameter) saved[use.buffer] += bytes;
        continue;
      }
      if (seen[use.buffer] != phases.begin[i]) saved[use.buffer] += bytes;
      seen[use.buffer] = phases.begin[i];
      if (use.writes && wrote[use.buffer] != phases.begin[i]) {
        saved[use.buffer] += bytes;
        wrote[use.buffer] = phases.begin[i];
      }
    }
  }
  return saved;
}

// Whether an instruction without states runs on the host: where its largest operand is used there,
// or, if all are small, any. `there`: per buffer, whether the host uses it.
bool FollowsToHost(const StepTrace& trace, const TracedInstruction& instruction,
                   const std::vector<bool>& there) {
  bool any = false, largest_there = false;
  int64_t largest = -1;
  for (const TracedUse& use : instruction.uses) {
    const int64_t bytes = trace.buffers[use.buffer].bytes;
    any = any || there[use.buffer];
    if (bytes > largest) largest_there = false;
    largest = std::max(largest, bytes);
    if (bytes == largest) largest_there = largest_there || there[use.buffer];
  }
  return largest < kSmallBytes ? any : largest_there;
}

// Per instruction: communication that began earlier still holds one of its buffers, which then must
// not change sides.
std::vector<bool> FindHeld(const StepTrace& trace) {
  std::vector<bool> held(trace.instructions.size(), false);
  std::vector<int64_t> until(trace.buffers.size(), -1);
  for (size_t i = 0; i < trace.instructions.size(); ++i) {
    for (const TracedUse& use : trace.instructions[i].uses) {
      if (until[use.buffer] >= static_cast<int64_t>(i)) held[i] = true;
      until[use.buffer] = std::max(until[use.buffer], use.until);
    }
  }
  return held;
}

void PlaceInstructions(const StepTrace& trace, Homes& homes) {
  homes.on_host.assign(trace.instructions.size(), false);
  const std::vector<bool> held = FindHeld(trace);
  std::vector<bool> there(trace.buffers.size(), false);
  std::vector<bool> open(trace.instructions.size(), false);
  auto move = [&](size_t i) {
    homes.on_host[i] = true;
    for (const TracedUse& use : trace.instructions[i].uses) there[use.buffer] = true;
  };
  for (size_t i = 0; i < trace.instructions.size(); ++i) {
    const TracedInstruction& instruction = trace.instructions[i];
    if (!instruction.may_run_on_host || held[i]) continue;
    bool states = false, device = false;
    for (const TracedUse& use : instruction.uses) {
      if (!IsState(trace, use.buffer)) continue;
      states = true;
      device = device || homes.home[use.buffer] == Tier::kDevice;
    }
    open[i] = !states;
    if (states && !device) move(i);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = trace.instructions.size(); i-- > 0;) {
      if (!open[i] || !FollowsToHost(trace, trace.instructions[i], there)) continue;
      open[i] = false;
      move(i);
      changed = true;
    }
  }
}

int DiskRank(const StepTrace& trace, int buffer) {
  switch (*trace.buffers[buffer].role) {
    case Role::kMoment1:
    case Role::kMoment2:
      return 0;
    case Role::kMaster:
      return 1;
    case Role::kParameter:
      return 2;
    default:
      return 3;
  }
}

}  // namespace

StateGroups FindGroups(const StepTrace& trace, bool smallest_first) {
  UnionFind joined(trace.buffers.size());
  for (const TracedInstruction& instruction : trace.instructions) {
    if (!instruction.may_run_on_host) continue;
    int first = -1;
    for (const TracedUse& use : instruction.uses) {
      if (!IsState(trace, use.buffer)) continue;
      if (first >= 0) joined.Join(use.buffer, first);
      first = use.buffer;
    }
  }
  const std::vector<int64_t> saved = SavedBytes(trace);
  std::vector<int> group_of(trace.buffers.size(), -1);
  StateGroups groups;
  std::vector<int64_t> worth;
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    if (!IsState(trace, static_cast<int>(b))) continue;
    int& group = group_of[joined.Find(static_cast<int>(b))];
    if (group < 0) {
      group = static_cast<int>(groups.states.size());
      groups.states.emplace_back();
      groups.bytes.push_back(0);
      worth.push_back(0);
    }
    groups.states[group].push_back(static_cast<int>(b));
    groups.bytes[group] += trace.buffers[b].bytes;
    worth[group] += saved[b];
  }
  std::vector<size_t> order(groups.states.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // In thousandths, so that padding makes no difference.
  auto key = [&](size_t g) {
    const int64_t bytes = std::max<int64_t>(1, groups.bytes[g]);
    return std::make_pair(-(worth[g] * 1000 + bytes / 2) / bytes, smallest_first ? bytes : 0);
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  StateGroups sorted;
  for (size_t g : order) {
    sorted.states.push_back(std::move(groups.states[g]));
    sorted.bytes.push_back(groups.bytes[g]);
  }
  return sorted;
}

Homes HomesWith(const StepTrace& trace, const StateGroups& groups, size_t on_device) {
  Homes homes;
  homes.home.assign(trace.buffers.size(), Tier::kDevice);
  for (size_t g = 0; g < groups.states.size(); ++g) {
    for (int buffer : groups.states[g]) {
      Tier& home = homes.home[buffer];
      home = trace.buffers[buffer].home.value_or(g < on_device ? Tier::kDevice : Tier::kHost);
      if (home == Tier::kDevice) homes.device_bytes += trace.buffers[buffer].bytes;
    }
  }
  PlaceInstructions(trace, homes);
  return homes;
}

std::vector<int> OrderToDisk(const StepTrace& trace, const std::vector<Tier>& home) {
  std::vector<int> order;
  for (size_t b = trace.buffers.size(); b-- > 0;) {
    const int buffer = static_cast<int>(b);
    if (!IsState(trace, buffer) || home[b] != Tier::kHost) continue;
    if (!trace.buffers[b].home.has_value()) order.push_back(buffer);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return DiskRank(trace, a) < DiskRank(trace, b); });
  return order;
}

}  // namespace colossus
