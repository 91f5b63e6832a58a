#include "tensor/exec/placement.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace colossus {
namespace {

constexpr size_t kDevice = static_cast<size_t>(Tier::kDevice);
constexpr size_t kHost = static_cast<size_t>(Tier::kHost);
constexpr size_t kDisk = static_cast<size_t>(Tier::kDisk);

// Where a buffer is as the step goes on.
struct Copies {
  std::array<int, 2> stay = {-1, -1};  // device, host: the present stay
  // Whether what is there is the buffer's value.
  std::array<bool, 3> current = {false, false, false};
};

class Checker {
 public:
  Checker(const StepTrace& trace, const Placement& placement)
      : trace_(trace),
        placement_(placement),
        copies_(trace.buffers.size()),
        begins_(trace.instructions.size()),
        stores_(begins_),
        ends_(begins_) {}

  absl::Status Run() {
    RETURN_IF_ERROR(CheckSizes());
    RETURN_IF_ERROR(CheckHomes());
    RETURN_IF_ERROR(CheckStays());
    size_t t = 0;
    for (size_t p = 0; p < trace_.phase_end.size(); ++p) {
      if (!Follows(trace_, p)) BeginPhase();
      for (; t < trace_.phase_end[p]; ++t) RETURN_IF_ERROR(Step(t));
      RETURN_IF_ERROR(EndPhase());
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Wrong(int buffer, absl::string_view rule) const {
    return absl::InternalError(absl::StrCat("placement of '", trace_.buffers[buffer].what,
                                            "' (buffer ", buffer, "): ", rule));
  }
  absl::Status WrongStay(size_t s, absl::string_view rule) const {
    const Stay& stay = placement_.stays[s];
    return Wrong(stay.buffer, absl::StrCat("stay on ", Name(stay.tier), " [", stay.first, ", ",
                                           stay.last, "] ", rule));
  }

  bool IsState(int buffer) const { return trace_.buffers[buffer].role.has_value(); }
  bool IsHome(int buffer, size_t tier) const {
    return IsState(buffer) && static_cast<size_t>(placement_.home[buffer]) == tier;
  }
  // The disk holds what is no state wherever it is asked to.
  bool IsThere(int buffer, size_t tier) const {
    if (IsHome(buffer, tier)) return true;
    return tier == kDisk ? !IsState(buffer) : copies_[buffer].stay[tier] >= 0;
  }

  absl::Status CheckHomes() const {
    for (size_t b = 0; b < trace_.buffers.size(); ++b) {
      const std::optional<Tier>& home = trace_.buffers[b].home;
      if (home.has_value() && placement_.home[b] != *home) {
        return Wrong(static_cast<int>(b), absl::StrCat("its home is ", Name(*home)));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckSizes() const {
    if (placement_.home.size() == trace_.buffers.size() &&
        placement_.on_host.size() == trace_.instructions.size()) {
      return absl::OkStatus();
    }
    return absl::InternalError(absl::StrCat("a placement of ", placement_.home.size(),
                                            " buffers and ", placement_.on_host.size(),
                                            " instructions for a trace of ", trace_.buffers.size(),
                                            " and ", trace_.instructions.size()));
  }

  // One past the last instruction of the phase, and of those that follow it.
  int64_t PhasesEnd(int64_t t) const {
    auto end =
        std::upper_bound(trace_.phase_end.begin(), trace_.phase_end.end(), static_cast<size_t>(t));
    size_t phase = static_cast<size_t>(end - trace_.phase_end.begin());
    while (Follows(trace_, phase + 1)) ++phase;
    return static_cast<int64_t>(trace_.phase_end[phase]);
  }

  // Each stay by itself and beside the one before.
  absl::Status CheckStays() {
    const int64_t instructions = static_cast<int64_t>(trace_.instructions.size());
    for (size_t s = 0; s < placement_.stays.size(); ++s) {
      const Stay& stay = placement_.stays[s];
      if (stay.buffer < 0 || stay.buffer >= static_cast<int>(trace_.buffers.size())) {
        return absl::InternalError(absl::StrCat("a stay of buffer ", stay.buffer));
      }
      if (stay.first < 0 || stay.first > stay.last || stay.last >= instructions) {
        return WrongStay(s, "is no part of the step");
      }
      if (stay.tier != Tier::kDevice && stay.tier != Tier::kHost) {
        return WrongStay(s, "is on neither device nor host");
      }
      if (IsState(stay.buffer) && stay.tier >= placement_.home[stay.buffer]) {
        return WrongStay(s, "is not above the home");
      }
      if (IsState(stay.buffer) && stay.last >= PhasesEnd(stay.first)) {
        return WrongStay(s, "of a state leaves its phases");
      }
      if (stay.store_after != -1 &&
          (stay.store_after < stay.first || stay.store_after > stay.last)) {
        return WrongStay(s, absl::StrCat("is stored after ", stay.store_after));
      }
      if (s > 0) {
        const Stay& before = placement_.stays[s - 1];
        if (std::tie(before.buffer, before.tier, before.last) >=
            std::tie(stay.buffer, stay.tier, stay.first)) {
          return WrongStay(s, "is not after the stay before it");
        }
      }
      begins_[stay.first].push_back(s);
      if (stay.store_after >= 0) stores_[stay.store_after].push_back(s);
      ends_[stay.last].push_back(s);
    }
    // Higher tiers load from lower ones, and store to them before those store further down.
    for (size_t t = 0; t < trace_.instructions.size(); ++t) {
      auto on = [&](Tier tier) {
        return [this, tier](size_t s) { return placement_.stays[s].tier == tier; };
      };
      std::stable_partition(begins_[t].begin(), begins_[t].end(), on(Tier::kHost));
      std::stable_partition(stores_[t].begin(), stores_[t].end(), on(Tier::kDevice));
    }
    return absl::OkStatus();
  }

  void BeginPhase() {
    for (size_t b = 0; b < copies_.size(); ++b) {
      const int buffer = static_cast<int>(b);
      if (!IsState(buffer)) continue;
      for (size_t tier : {kDevice, kHost, kDisk}) {
        copies_[b].current[tier] = IsHome(buffer, tier);
      }
    }
  }

  absl::Status EndPhase() const {
    for (size_t b = 0; b < copies_.size(); ++b) {
      const int buffer = static_cast<int>(b);
      if (!IsState(buffer)) continue;
      if (!copies_[b].current[static_cast<size_t>(placement_.home[b])]) {
        return Wrong(buffer, "its home is not up to date when a phase ends");
      }
    }
    return absl::OkStatus();
  }

  absl::Status Step(size_t t) {
    for (size_t s : begins_[t]) RETURN_IF_ERROR(Begin(s));
    const TracedInstruction& instruction = trace_.instructions[t];
    if (placement_.on_host[t] && !instruction.may_run_on_host) {
      return absl::InternalError(absl::StrCat("instruction ", t, " may not run on the host"));
    }
    for (const TracedUse& use : instruction.uses) RETURN_IF_ERROR(Use(t, use));
    for (size_t s : stores_[t]) RETURN_IF_ERROR(Store(s));
    for (size_t s : ends_[t]) {
      const Stay& stay = placement_.stays[s];
      const size_t tier = static_cast<size_t>(stay.tier);
      copies_[stay.buffer].stay[tier] = -1;
      copies_[stay.buffer].current[tier] = false;
    }
    return absl::OkStatus();
  }

  absl::Status Begin(size_t s) {
    const Stay& stay = placement_.stays[s];
    const size_t tier = static_cast<size_t>(stay.tier);
    Copies& copies = copies_[stay.buffer];
    copies.stay[tier] = static_cast<int>(s);
    copies.current[tier] = stay.load;
    if (!stay.load) return absl::OkStatus();
    if (!IsThere(stay.buffer, tier + 1)) return WrongStay(s, "is loaded from where nothing is");
    if (!copies.current[tier + 1]) return WrongStay(s, "is loaded from a stale copy");
    return absl::OkStatus();
  }

  absl::Status Use(size_t t, const TracedUse& use) {
    Copies& copies = copies_[use.buffer];
    const size_t tier = placement_.on_host[t] ? kHost : kDevice;
    auto wrong = [&](absl::string_view rule) {
      return Wrong(use.buffer, absl::StrCat("instruction ", t, " on ",
                                            Name(static_cast<Tier>(tier)), " ", rule));
    };
    if (!IsThere(use.buffer, tier)) return wrong("finds it elsewhere");
    if (!use.overwrites && !copies.current[tier]) return wrong("finds a stale copy");
    const int s = IsHome(use.buffer, tier) ? -1 : copies.stay[tier];
    if (s >= 0 && placement_.stays[s].last < use.until) {
      return wrong(absl::StrCat("needs it until ", use.until));
    }
    if (!use.writes) return absl::OkStatus();
    if (s >= 0 && placement_.stays[s].store_after >= 0 &&
        placement_.stays[s].store_after < static_cast<int64_t>(t)) {
      return wrong("writes it after the stay was stored");
    }
    copies.current = {false, false, false};
    copies.current[tier] = true;
    return absl::OkStatus();
  }

  absl::Status Store(size_t s) {
    const Stay& stay = placement_.stays[s];
    const size_t tier = static_cast<size_t>(stay.tier);
    Copies& copies = copies_[stay.buffer];
    if (!copies.current[tier]) return WrongStay(s, "stores a stale copy");
    if (!IsThere(stay.buffer, tier + 1)) return WrongStay(s, "is stored to where it has no place");
    copies.current[tier + 1] = true;
    return absl::OkStatus();
  }

  const StepTrace& trace_;
  const Placement& placement_;
  std::vector<Copies> copies_;                               // by buffer
  std::vector<std::vector<size_t>> begins_, stores_, ends_;  // by instruction: stays
};

}  // namespace

absl::Status CheckPlacement(const StepTrace& trace, const Placement& placement) {
  return Checker(trace, placement).Run();
}

}  // namespace colossus
