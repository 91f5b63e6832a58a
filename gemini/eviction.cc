#include "gemini/eviction.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace colossus {
namespace {

// A use in the order of time.
struct Event {
  int64_t at;
  int object, use;
};

std::vector<Event> EventsOf(absl::Span<const TierObject> objects) {
  std::vector<Event> events;
  for (size_t o = 0; o < objects.size(); ++o) {
    for (size_t u = 0; u < objects[o].uses.size(); ++u) {
      events.push_back({objects[o].uses[u].at, static_cast<int>(o), static_cast<int>(u)});
    }
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.at < b.at; });
  return events;
}

// What an object is at the present instant.
struct Now {
  int stay = -1;           // in TierPlan::stays; -1: not there
  int64_t held = -1;       // may not leave until then
  int64_t next = -1;       // when its value is used next; -1: never. While it is a candidate
  bool twice = false;      // leaving costs a copy each way. While it is a candidate
  bool candidate = false;  // may be evicted
  bool below = false;      // the tier below holds its value
  bool dirty = false;      // this stay wrote it, and nothing has copied it since
  int64_t written = -1;    // last write of this stay
  int use = -1;            // the latest
};

class Planner {
 public:
  Planner(absl::Span<const TierObject> objects, int64_t capacity, int64_t most, int64_t nearer)
      : objects_(objects),
        capacity_(capacity),
        most_(most),
        nearer_(nearer),
        now_(objects.size()) {
    for (size_t o = 0; o < objects.size(); ++o) now_[o].below = objects[o].below;
  }

  absl::StatusOr<TierPlan> Run() {
    const std::vector<Event> events = EventsOf(objects_);
    for (size_t begin = 0; begin < events.size();) {
      size_t end = begin;
      while (end < events.size() && events[end].at == events[begin].at) ++end;
      RETURN_IF_ERROR(Step(absl::MakeConstSpan(events).subspan(begin, end - begin)));
      begin = end;
    }
    while (!held_.empty()) LetGo(held_.begin()->first + 1);
    std::stable_sort(plan_.stays.begin(), plan_.stays.end(),
                     [](const TierStay& a, const TierStay& b) { return a.object < b.object; });
    return std::move(plan_);
  }

 private:
  absl::Status Step(absl::Span<const Event> events) {
    const int64_t at = events[0].at;
    LetGo(at);
    int64_t missing = 0;
    for (const Event& event : events) {
      Now& now = now_[event.object];
      if (now.stay < 0) missing += objects_[event.object].bytes;
      if (now.candidate) Forget(event.object);
    }
    RETURN_IF_ERROR(MakeRoom(at, missing));
    for (const Event& event : events) Use(event);
    plan_.peak = std::max(plan_.peak, used_);
    return absl::OkStatus();
  }

  void Use(const Event& event) {
    const TierObject& object = objects_[event.object];
    const TierUse& use = object.uses[event.use];
    Now& now = now_[event.object];
    bool made = false;
    if (now.stay < 0) made = Enter(event, use.overwrites);
    now.use = event.use;
    if (use.writes || use.overwrites || made) {
      now.written = event.at;
      now.dirty = true;
      now.below = false;
    }
    held_.erase({now.held, event.object});
    now.held = std::max(now.held, HeldUntil(object, event.use));
    held_.insert({now.held, event.object});
  }

  // True: the use makes the value, perhaps in parts, since there is none to be copied.
  bool Enter(const Event& event, bool overwrites) {
    const TierObject& object = objects_[event.object];
    Now& now = now_[event.object];
    now.stay = static_cast<int>(plan_.stays.size());
    now.held = -1;
    now.dirty = false;
    now.written = -1;
    TierStay stay;
    stay.object = event.object;
    stay.first = event.at;
    stay.load = !overwrites && now.below;
    if (stay.load) {
      ++plan_.loads;
      plan_.loaded_bytes += object.bytes;
    }
    plan_.stays.push_back(stay);
    used_ += object.bytes;
    return !stay.load;
  }

  // The next use of the value, -1: none, the value is dead.
  int64_t NextRead(int o) const {
    const TierObject& object = objects_[o];
    const size_t next = static_cast<size_t>(now_[o].use) + 1;
    if (next >= object.uses.size() || object.uses[next].overwrites) return -1;
    return object.uses[next].at;
  }

  // Whether the present value is copied down in any case: at the latest when it dies.
  bool StoredAnyway(int o) const {
    const TierObject& object = objects_[o];
    if (!object.wanted_below) return false;
    for (size_t u = static_cast<size_t>(now_[o].use) + 1; u < object.uses.size(); ++u) {
      if (object.uses[u].writes || object.uses[u].overwrites) return false;
    }
    return true;
  }

  // What is held until before `at` may leave: values that are dead do at once.
  void LetGo(int64_t at) {
    while (!held_.empty() && held_.begin()->first < at) {
      const int o = held_.begin()->second;
      held_.erase(held_.begin());
      Now& now = now_[o];
      now.next = NextRead(o);
      if (now.next < 0) {
        Leave(o, now.held, /*dead=*/true);
        continue;
      }
      now.twice = now.dirty && !StoredAnyway(o);
      now.candidate = true;
      candidates_[now.twice].insert({now.next, o});
    }
  }

  void Forget(int o) {
    candidates_[now_[o].twice].erase({now_[o].next, o});
    now_[o].candidate = false;
  }

  void Leave(int o, int64_t kept, bool dead) {
    const TierObject& object = objects_[o];
    Now& now = now_[o];
    TierStay& stay = plan_.stays[now.stay];
    stay.last = now.held;
    stay.kept = kept;
    const bool last_value = static_cast<size_t>(now.use) + 1 == object.uses.size();
    if (now.dirty && (!dead || (last_value && object.wanted_below))) {
      stay.store_after = now.written;
      now.below = true;
      ++plan_.stores;
      plan_.stored_bytes += object.bytes;
    }
    if (!dead) ++plan_.evictions;
    used_ -= object.bytes;
    now.stay = -1;
  }

  // The candidate that is used latest, one that costs two copies counting as nearer.
  int Victim(int64_t at) const {
    const auto &once = candidates_[0], &twice = candidates_[1];
    if (once.empty() && twice.empty()) return -1;
    if (once.empty()) return twice.rbegin()->second;
    if (twice.empty()) return once.rbegin()->second;
    const bool second = (twice.rbegin()->first - at) > nearer_ * (once.rbegin()->first - at);
    return second ? twice.rbegin()->second : once.rbegin()->second;
  }

  // Evicts until `bytes` more fit. What turns out to be needless, since a large one followed a
  // small one, stays.
  absl::Status MakeRoom(int64_t at, int64_t bytes) {
    int64_t room = capacity_ - used_;
    std::vector<int> victims;
    while (room < bytes) {
      const int victim = Victim(at);
      if (victim < 0) {
        const int64_t need = used_ - Sum(victims) + bytes;
        if (need <= most_) break;
        return absl::ResourceExhaustedError(
            absl::StrCat("instruction ", at, " needs ", need, " bytes at once, of ", most_));
      }
      Forget(victim);
      victims.push_back(victim);
      room += objects_[victim].bytes;
    }
    for (int victim : victims) {
      if (objects_[victim].bytes <= room - bytes) {
        room -= objects_[victim].bytes;
        now_[victim].candidate = true;
        candidates_[now_[victim].twice].insert({now_[victim].next, victim});
      } else {
        Leave(victim, at - 1, /*dead=*/false);
      }
    }
    return absl::OkStatus();
  }

  int64_t Sum(const std::vector<int>& objects) const {
    int64_t sum = 0;
    for (int o : objects) sum += objects_[o].bytes;
    return sum;
  }

  const absl::Span<const TierObject> objects_;
  const int64_t capacity_, most_, nearer_;
  std::vector<Now> now_;
  std::set<std::pair<int64_t, int>> held_;           // (held, object)
  std::set<std::pair<int64_t, int>> candidates_[2];  // (next, object), by `twice`
  int64_t used_ = 0;
  TierPlan plan_;
};

}  // namespace

int64_t HeldUntil(const TierObject& object, size_t use) {
  if (!object.pinned) return std::max(object.uses[use].at, object.uses[use].until);
  int64_t held = 0;  // an earlier use may hold it for longer than the last one
  for (const TierUse& each : object.uses) held = std::max({held, each.at, each.until});
  return held;
}

absl::StatusOr<TierPlan> PlanStays(absl::Span<const TierObject> objects, int64_t capacity,
                                   int64_t nearer) {
  return PlanSparseStays(objects, capacity, capacity, nearer);
}

absl::StatusOr<TierPlan> PlanSparseStays(absl::Span<const TierObject> objects, int64_t capacity,
                                         int64_t most, int64_t nearer) {
  if (most < 0) {
    return absl::ResourceExhaustedError(absl::StrCat("less than nothing is left: ", most));
  }
  return Planner(objects, capacity, most, nearer).Run();
}

int64_t LeastCapacity(absl::Span<const TierObject> objects, int64_t* at) {
  std::vector<std::pair<int64_t, int64_t>> changes;  // (instant, bytes)
  for (const TierObject& object : objects) {
    for (size_t u = 0; u < object.uses.size();) {
      const int64_t first = object.uses[u].at;
      int64_t held = HeldUntil(object, u);
      for (++u; u < object.uses.size() && object.uses[u].at <= held; ++u) {
        held = std::max(held, HeldUntil(object, u));
      }
      changes.push_back({first, object.bytes});
      changes.push_back({held + 1, -object.bytes});
    }
  }
  std::sort(changes.begin(), changes.end());
  int64_t most = 0, sum = 0;
  if (at != nullptr) *at = changes.empty() ? -1 : changes[0].first;
  for (const auto& [instant, bytes] : changes) {  // at one instant what leaves comes first
    sum += bytes;
    if (sum <= most) continue;
    most = sum;
    if (at != nullptr) *at = instant;
  }
  return most;
}

}  // namespace colossus
