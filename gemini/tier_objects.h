// TierObjects: what the device, and then the host, must hold when, as questions for PlanStays.
//
// Purpose: the bridge between a step's trace and the eviction engine. A buffer's life on a tier is
// cut where its value is elsewhere for good: a state where its phase ends, since homes are true
// there, and anything where the other side of the link uses it. What a phase that follows reads
// may come while the one before runs, if nothing there touches it. On the host, loads and stores of
// the device's stays are uses.
// Thread-safety: plain functions. Ownership: plain values.
//
//   TierObjects device = DeviceObjects(trace, home, on_host);
//   ASSIGN_OR_RETURN(TierPlan plan, PlanStays(device.objects, capacity));
#ifndef COLOSSUS_GEMINI_TIER_OBJECTS_H_
#define COLOSSUS_GEMINI_TIER_OBJECTS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "gemini/eviction.h"
#include "tensor/exec/placement.h"

namespace colossus {

struct TierObjects {
  std::vector<TierObject> objects;
  std::vector<int> buffer;  // per object
  // Per object: the instructions within which its stays must lie. If the tier below holds its value
  // before the first use, it does from `from` on.
  std::vector<int64_t> from, to;  // inclusive
};

// Of buffers without a home on the device that instructions on the device use.
TierObjects DeviceObjects(const StepTrace& trace, const std::vector<Tier>& home,
                          const std::vector<bool>& on_host);

// Of buffers without a home on the host that are there for instructions on the host or for copies
// from and to the device. `device`: stays there, by buffer, then first. `alignment`: of sizes.
TierObjects HostObjects(const StepTrace& trace, const std::vector<Tier>& home,
                        const std::vector<bool>& on_host, absl::Span<const Stay> device,
                        int64_t alignment);

// Stays that PlanStays or LookAhead gave the objects, on `tier`; by buffer, then first.
std::vector<Stay> StaysOf(const TierObjects& objects, absl::Span<const TierStay> stays, Tier tier);

}  // namespace colossus

#endif  // COLOSSUS_GEMINI_TIER_OBJECTS_H_
