#include "gemini/host_tier.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/round_up.h"
#include "base/status.h"
#include "gemini/eviction.h"
#include "gemini/lookahead.h"
#include "gemini/memory_bound.h"
#include "gemini/tier_objects.h"

namespace colossus {
namespace {

// Beside what one instruction needs from disk, room to read for the next ones and write for the
// last ones.
constexpr int64_t kAheadOfDisk = 2;

class Planner {
 public:
  Planner(const StepTrace& trace, const Homes& homes, absl::Span<const Stay> device,
          const StepTime& time, const HostTierOptions& options)
      : trace_(trace),
        homes_(homes),
        device_(device),
        time_(time),
        options_(options),
        order_(OrderToDisk(trace, homes.home)) {}

  absl::StatusOr<HostTier> Run() const {
    const size_t most = options_.disk_bytes > 0 ? order_.size() : 0;
    // The fewest homes on disk with which nothing else must go there.
    size_t low = 0, high = most;
    if (!IsRoomy(0)) {
      while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        (IsRoomy(middle) ? high : low) = middle;
      }
    } else {
      high = 0;
    }
    absl::StatusOr<HostTier> host = Place(high);
    if (!host.ok() && high != most) host = Place(most);
    return host.ok() || most == 0 ? std::move(host) : WithoutRoom(std::move(host));
  }

 private:
  // Where the disk is too small for so many: the fewest homes there that leave the host enough, and
  // some more, since what passes through may go there too.
  absl::StatusOr<HostTier> WithoutRoom(absl::StatusOr<HostTier> refused) const {
    size_t low = 0, high = order_.size();
    if (!FitsHost(high)) return refused;
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (FitsHost(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    absl::StatusOr<HostTier> fewest = Place(high);
    for (size_t more = 1; !fewest.ok() && high + more < order_.size(); more *= 2) {
      absl::StatusOr<HostTier> host = Place(high + more);
      if (host.ok()) return host;
    }
    return fewest;
  }

  std::vector<Tier> HomesWithDisk(size_t on_disk) const {
    std::vector<Tier> home = homes_.home;
    for (size_t k = 0; k < on_disk; ++k) home[order_[k]] = Tier::kDisk;
    return home;
  }

  bool IsState(size_t buffer) const { return trace_.buffers[buffer].role.has_value(); }

  int64_t HomeBytes(const std::vector<Tier>& home, Tier tier) const {
    int64_t bytes = 0;
    for (size_t b = 0; b < home.size(); ++b) {
      if (IsState(b) && home[b] == tier) bytes += Aligned(trace_.buffers[b].bytes, tier);
    }
    return bytes;
  }

  int64_t Aligned(int64_t bytes, Tier tier) const {
    return tier == Tier::kDisk ? RoundUp(bytes, options_.alignment) : bytes;
  }

  TierObjects Objects(const std::vector<Tier>& home) const {
    return HostObjects(trace_, home, homes_.on_host, device_,
                       options_.disk_bytes > 0 ? options_.alignment : 1);
  }

  // Most bytes that come from disk for one instruction.
  int64_t LargestRead(const TierObjects& objects) const {
    std::vector<int64_t> bytes(trace_.instructions.size(), 0);
    int64_t most = 0;
    for (size_t o = 0; o < objects.objects.size(); ++o) {
      if (!objects.objects[o].below) continue;
      for (const TierUse& use : objects.objects[o].uses) {
        most = std::max(most, bytes[use.at] += objects.objects[o].bytes);
      }
    }
    return most;
  }

  // Whether with so many homes on disk all else that is on the host stays there, and there is room
  // to read and write ahead.
  bool IsRoomy(size_t on_disk) const {
    const std::vector<Tier> home = HomesWithDisk(on_disk);
    const TierObjects objects = Objects(home);
    const int64_t capacity =
        options_.host_bytes - HomeBytes(home, Tier::kHost) - kAheadOfDisk * LargestRead(objects);
    const absl::StatusOr<TierPlan> plan = PlanStays(objects.objects, capacity);
    if (!plan.ok()) return false;
    return std::none_of(plan->stays.begin(), plan->stays.end(), [&](const TierStay& stay) {
      return stay.store_after >= 0 && !IsState(objects.buffer[stay.object]);
    });
  }

  bool FitsHost(size_t on_disk) const {
    const std::vector<Tier> home = HomesWithDisk(on_disk);
    return PlanStays(Objects(home).objects, options_.host_bytes - HomeBytes(home, Tier::kHost))
        .ok();
  }

  absl::StatusOr<HostTier> Place(size_t on_disk) const {
    HostTier host;
    host.home = HomesWithDisk(on_disk);
    const TierObjects objects = Objects(host.home);
    const int64_t homes = HomeBytes(host.home, Tier::kHost);
    absl::StatusOr<TierPlan> plan = PlanStays(objects.objects, options_.host_bytes - homes);
    if (!plan.ok()) return HostTooSmall(objects, homes);
    RETURN_IF_ERROR(CheckDisk(host.home, objects, *plan));
    LookAhead(objects, time_,
              {.capacity = options_.host_bytes - homes,
               .bytes_per_second = options_.disk_bytes_per_second},
              plan->stays);
    host.stays = StaysOf(objects, plan->stays, Tier::kHost);
    return host;
  }

  absl::Status HostTooSmall(const TierObjects& objects, int64_t homes) const {
    const MemoryBound bound = BoundOf(trace_, objects);
    return absl::ResourceExhaustedError(
        absl::StrCat("the host has ", options_.host_bytes + options_.staging_bytes,
                     " bytes, of which states take ", homes, " and staging ",
                     options_.staging_bytes, "; ", Describe(trace_, bound), " needs ", bound.bytes,
                     " more at once. It would fit with a host "
                     "memory of ",
                     homes + bound.bytes + options_.staging_bytes, " bytes",
                     options_.disk_bytes > 0 ? "" : ", or with a disk to offload to"));
  }

  // What is no state is on disk from where it is first stored to where it is last loaded.
  absl::Status CheckDisk(const std::vector<Tier>& home, const TierObjects& objects,
                         const TierPlan& plan) const {
    const int64_t homes = HomeBytes(home, Tier::kDisk);
    std::vector<int64_t> change(trace_.instructions.size() + 1, 0);
    std::vector<int64_t> first(objects.objects.size(), -1), last(first);
    for (const TierStay& stay : plan.stays) {
      if (IsState(objects.buffer[stay.object])) continue;
      if (stay.store_after >= 0 && first[stay.object] < 0) first[stay.object] = stay.store_after;
      if (stay.load) last[stay.object] = stay.first;
    }
    for (size_t o = 0; o < first.size(); ++o) {
      if (first[o] < 0) continue;
      change[first[o]] += objects.objects[o].bytes;
      change[std::max(first[o], last[o]) + 1] -= objects.objects[o].bytes;
    }
    int64_t passing = 0, most = 0;
    for (int64_t bytes : change) most = std::max(most, passing += bytes);
    const int64_t need = homes + most;
    if (need <= options_.disk_bytes) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("device, host and disk together are too small: the disk may take ",
                     options_.disk_bytes, " bytes, of ", need, ": ", homes, " of states and ", most,
                     " that pass through; the host has ",
                     options_.host_bytes + options_.staging_bytes, ". It would fit with ",
                     need - options_.disk_bytes, " bytes more of either"));
  }

  const StepTrace& trace_;
  const Homes& homes_;
  const absl::Span<const Stay> device_;
  const StepTime& time_;
  const HostTierOptions& options_;
  const std::vector<int> order_;
};

}  // namespace

absl::StatusOr<HostTier> PlanHost(const StepTrace& trace, const Homes& homes,
                                  absl::Span<const Stay> device, const StepTime& time,
                                  const HostTierOptions& options) {
  return Planner(trace, homes, device, time, options).Run();
}

}  // namespace colossus
