// Traffic: what a placement copies, and what any placement must.
//
// Purpose: the figures that a plan is judged by. Copies between device and host by what they carry;
// beside them lower bounds that hold for every order of loads: a state comes in once a phase, what
// the host needs goes out once, and where more must survive an instant than there is room for, the
// rest comes in again, after it has gone out if it was just written. For two-byte parameters and
// one micro-batch that is 6M - C streamed and 4M resident (M parameters, C bytes that stay through
// the turn).
// Thread-safety: plain functions. Ownership: plain values.
//
//   std::vector<TierTraffic> moved = PlacedTraffic(trace, placement);   // per phase
//   std::vector<TrafficBound> least = BoundTraffic(trace, placement, tiers.device);
#ifndef COLOSSUS_GEMINI_TRAFFIC_H_
#define COLOSSUS_GEMINI_TRAFFIC_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tensor/exec/memory_plan.h"
#include "tensor/exec/placement.h"

namespace colossus {

// Per phase: what its copies carry; of disk, whole blocks of `disk_alignment` bytes.
std::vector<TierTraffic> PlacedTraffic(const StepTrace& trace, const Placement& placement,
                                       int64_t disk_alignment = kDiskAlignment);

// Between device and host, both ways.
int64_t ModelBytes(const TierTraffic& moved);
int64_t ActivationBytes(const TierTraffic& moved);

// Between device and host, in bytes, for the homes and host instructions of a placement.
struct TrafficBound {
  // Of parameters, gradients and states, with activations where the placement has them.
  int64_t model_to_device = 0, model_to_host = 0;
  // Of activations, wherever model data is.
  int64_t activations_to_device = 0, activations_to_host = 0;

  int64_t model() const { return model_to_device + model_to_host; }
  int64_t activations() const { return activations_to_device + activations_to_host; }
  TrafficBound& operator+=(const TrafficBound& other);
};

// Per phase. `device_bytes`: of the tier. `copied_bytes`: what a copy of each buffer carries at
// least, which may be less than the memory it takes; empty: as much.
std::vector<TrafficBound> BoundTraffic(const StepTrace& trace, const Placement& placement,
                                       int64_t device_bytes,
                                       absl::Span<const int64_t> copied_bytes = {});

// Per phase, that in which it comes back: how often a value has left the device though it is used
// there again in the same phase, or, if it is no state, ever.
std::vector<int64_t> CountEvictions(const StepTrace& trace, const Placement& placement);

}  // namespace colossus

#endif  // COLOSSUS_GEMINI_TRAFFIC_H_
