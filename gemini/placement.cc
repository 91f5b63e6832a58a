#include "gemini/placement.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "gemini/eviction.h"
#include "gemini/homes.h"
#include "gemini/host_tier.h"
#include "gemini/lookahead.h"
#include "gemini/memory_bound.h"
#include "gemini/placed_time.h"
#include "gemini/step_time.h"
#include "gemini/tier_objects.h"

namespace colossus {
namespace {

// Measured rates before declared ones.
PlacedTimeOptions RatesOf(const GeminiOptions& options, const StepTrace& trace) {
  PlacedTimeOptions rates = {options.link_bytes_per_second, options.disk_bytes_per_second};
  if (trace.link_bytes_per_second > 0) rates.link_bytes_per_second = trace.link_bytes_per_second;
  const double read = trace.disk_read_bytes_per_second;
  const double write = trace.disk_write_bytes_per_second;
  if (read > 0 && write > 0) rates.disk_bytes_per_second = std::min(read, write);
  return rates;
}

// How much nearer what must be copied out counts: the least traffic wins.
constexpr int64_t kNearer[] = {2, 8, 1000};

// One call of Place, with the groups in one order.
class Planner {
 public:
  Planner(const GeminiOptions& options, const StepTrace& trace, const TierBytes& tiers,
          bool smallest_first)
      : options_(options),
        trace_(trace),
        tiers_(tiers),
        rates_(RatesOf(options, trace)),
        groups_(FindGroups(trace, smallest_first)) {}

  absl::StatusOr<Placement> Run() const {
    if (options_.policy == PlacementPolicy::kStatic) return Static();
    const size_t all = options_.policy == PlacementPolicy::kCpu ? 0 : groups_.states.size();
    const size_t margin = LargestGood(all, [this](size_t g) { return MovesNothingTwice(g); });
    absl::StatusOr<Placement> placement = Attempt(margin);
    if (placement.ok()) return placement;
    // The tiers below are too small for the rest: the fewest more that make it fit live on the
    // device.
    size_t refused = margin;
    size_t accepted = LargestGood(all, [this](size_t g) { return FitsDevice(g); }) + 1;
    while (accepted > refused + 1) {
      const size_t middle = refused + (accepted - refused) / 2;
      absl::StatusOr<Placement> more = Attempt(middle);
      (more.ok() ? accepted : refused) = middle;
      if (more.ok()) placement = std::move(more);
    }
    return placement;
  }

  bool IsPlain() const {
    return options_.policy == PlacementPolicy::kAuto && MovesNothingTwice(groups_.states.size());
  }

 private:
  // The largest g <= all that is good, where all up to some g are; 0 if none is.
  template <typename Good>
  static size_t LargestGood(size_t all, Good good) {
    if (all == 0 || good(all)) return all;
    size_t low = 0, high = all;
    while (high - low > 1) {
      const size_t middle = low + (high - low) / 2;
      (good(middle) ? low : high) = middle;
    }
    return low;
  }

  absl::Status TooSmall(Tier tier, int64_t bytes, int64_t homes, const TierObjects& objects) const {
    const MemoryBound bound = BoundOf(trace_, objects);
    const int64_t need = bound.bytes + homes;
    return absl::ResourceExhaustedError(absl::StrCat(
        "the ", Name(tier), " has ", bytes, " bytes, ", Describe(trace_, bound), " needs ", need,
        " at once. It would fit with a ", Name(tier), " memory of ", need,
        " bytes and some for gaps, or with a smaller micro-batch, a shorter sequence or more ranks "
        "to share it"));
  }

  // Whether with `g` groups at home on the device everything else is copied there at most once a
  // phase, and what is made there leaves only for the host's own use.
  bool MovesNothingTwice(size_t g) const {
    const Homes homes = HomesWith(trace_, groups_, g);
    const TierObjects objects = DeviceObjects(trace_, homes.home, homes.on_host);
    const absl::StatusOr<TierPlan> plan =
        PlanStays(objects.objects, tiers_.device - tiers_.gaps - homes.device_bytes);
    return plan.ok() && plan->evictions == 0;
  }

  bool FitsDevice(size_t g) const {
    const Homes homes = HomesWith(trace_, groups_, g);
    const TierObjects objects = DeviceObjects(trace_, homes.home, homes.on_host);
    return homes.device_bytes + LeastCapacity(objects.objects) <= tiers_.device;
  }

  absl::StatusOr<Placement> Attempt(size_t g) const {
    const Homes homes = HomesWith(trace_, groups_, g);
    const TierObjects objects = DeviceObjects(trace_, homes.home, homes.on_host);
    return Place(homes, objects);
  }

  static absl::StatusOr<TierPlan> LeastTraffic(const TierObjects& objects, int64_t capacity,
                                               int64_t most) {
    absl::StatusOr<TierPlan> best;
    for (int64_t nearer : kNearer) {
      absl::StatusOr<TierPlan> plan = PlanSparseStays(objects.objects, capacity, most, nearer);
      if (!plan.ok()) return plan;
      auto moved = [](const TierPlan& one) { return one.loaded_bytes + one.stored_bytes; };
      if (!best.ok() || moved(*plan) < moved(*best)) best = std::move(plan);
      if (best->evictions == 0) break;
    }
    return best;
  }

  absl::StatusOr<Placement> Place(const Homes& homes, const TierObjects& objects) const {
    const int64_t all = tiers_.device - homes.device_bytes;
    int64_t capacity = all - tiers_.gaps;
    if (!tiers_.sparse) {
      capacity = std::max(capacity, std::min(all, LeastCapacity(objects.objects)));
    }
    absl::StatusOr<TierPlan> plan = LeastTraffic(objects, capacity, all);
    if (!plan.ok()) return TooSmall(Tier::kDevice, tiers_.device, homes.device_bytes, objects);
    const StepTime time = TimeStep(trace_, homes.on_host);
    std::vector<TierStay> early = plan->stays;
    LookAhead(objects, time,
              {.capacity = capacity, .bytes_per_second = rates_.link_bytes_per_second}, early);
    absl::StatusOr<Placement> placement =
        WithHost(homes, time, StaysOf(objects, early, Tier::kDevice));
    if (placement.ok()) return placement;
    // Early copies to the device need their values on the host for longer.
    return WithHost(homes, time, StaysOf(objects, plan->stays, Tier::kDevice));
  }

  absl::StatusOr<Placement> WithHost(const Homes& homes, const StepTime& time,
                                     const std::vector<Stay>& device) const {
    Placement placement;
    placement.on_host = homes.on_host;
    ASSIGN_OR_RETURN(HostTier host, PlanHost(trace_, homes, device, time,
                                             {.host_bytes = tiers_.host,
                                              .disk_bytes = tiers_.disk,
                                              .staging_bytes = tiers_.staging,
                                              .disk_bytes_per_second = rates_.disk_bytes_per_second,
                                              .alignment = options_.disk_alignment}));
    placement.home = std::move(host.home);
    placement.stays = device;
    placement.stays.insert(placement.stays.end(), host.stays.begin(), host.stays.end());
    std::sort(placement.stays.begin(), placement.stays.end(), [](const Stay& a, const Stay& b) {
      return std::tie(a.buffer, a.tier, a.first) < std::tie(b.buffer, b.tier, b.first);
    });
    return placement;
  }

  absl::StatusOr<Placement> Static() const {
    const Homes homes = HomesWith(trace_, groups_, 0);
    TierObjects objects = DeviceObjects(trace_, homes.home, homes.on_host);
    const PhaseOf phases = FindPhases(trace_);
    for (size_t o = 0; o < objects.objects.size(); ++o) {
      TierObject& object = objects.objects[o];
      object.pinned = true;
      int64_t& from = objects.from[o];
      from = std::max(from, phases.begin[object.uses.front().at]);
      if (trace_.buffers[objects.buffer[o]].role.has_value()) HoldThroughout(objects, o);
    }
    absl::StatusOr<Placement> placement = Place(homes, objects);
    if (placement.ok()) return placement;
    return absl::ResourceExhaustedError(
        absl::StrCat(placement.status().message(),
                     "; placement=static moves no activation and "
                     "keeps parameters on the device, placement=auto needs a device memory of ",
                     DeviceBound(trace_).bytes, " bytes"));
  }

  // A state is there while the device computes in that phase, not only while it is used.
  static void HoldThroughout(TierObjects& objects, size_t o) {
    std::vector<TierUse>& uses = objects.objects[o].uses;
    if (!uses.front().overwrites && uses.front().at > objects.from[o]) {
      TierUse use;
      use.at = use.until = objects.from[o];
      uses.insert(uses.begin(), use);
    }
    uses.back().until = std::max(uses.back().until, objects.to[o]);
  }

  const GeminiOptions& options_;
  const StepTrace& trace_;
  const TierBytes& tiers_;
  const PlacedTimeOptions rates_;
  const StateGroups groups_;
};

}  // namespace

absl::string_view Name(PlacementPolicy policy) {
  switch (policy) {
    case PlacementPolicy::kAuto:
      return "auto";
    case PlacementPolicy::kStatic:
      return "static";
    case PlacementPolicy::kCpu:
      return "cpu";
  }
  CHECK(false) << "unknown placement policy";
  return "";
}

absl::StatusOr<PlacementPolicy> ParsePlacementPolicy(absl::string_view name) {
  for (PlacementPolicy policy :
       {PlacementPolicy::kAuto, PlacementPolicy::kStatic, PlacementPolicy::kCpu}) {
    if (name == Name(policy)) return policy;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("placement '", name, "' is none of auto, static, cpu"));
}

absl::StatusOr<Placement> GeminiPlacer::Place(const StepTrace& trace,
                                              const TierBytes& tiers) const {
  const Planner in_order(options_, trace, tiers, /*smallest_first=*/false);
  absl::StatusOr<Placement> placement = in_order.Run();
  if (options_.policy != PlacementPolicy::kAuto || in_order.IsPlain()) return placement;
  // A large group that is used first may be all that fits, or stand in the way of all others.
  absl::StatusOr<Placement> other = Planner(options_, trace, tiers, /*smallest_first=*/true).Run();
  if (!placement.ok() || !other.ok()) return placement.ok() ? placement : other;
  const PlacedTimeOptions rates = RatesOf(options_, trace);
  const bool faster =
      TimePlacement(trace, *other, rates).seconds < TimePlacement(trace, *placement, rates).seconds;
  return faster ? other : placement;
}

}  // namespace colossus
