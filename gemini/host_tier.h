// PlanHost: what lives and stays on the host and on disk, given the device's stays.
//
// Purpose: the lower half of a placement. Homes that the host has no room for beside what passes
// through it go to disk; what is there for the device's copies and for instructions on the host
// comes and goes by farthest next use, read early enough by virtual time.
// Thread-safety: a plain function. Ownership: plain values.
#ifndef COLOSSUS_GEMINI_HOST_TIER_H_
#define COLOSSUS_GEMINI_HOST_TIER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gemini/homes.h"
#include "gemini/step_time.h"
#include "tensor/exec/placement.h"

namespace colossus {

struct HostTierOptions {
  int64_t host_bytes = 0, disk_bytes = 0;
  int64_t staging_bytes = 0;  // of the host besides; for messages
  double disk_bytes_per_second = 0;
  int64_t alignment = 1;  // of what goes to or comes from disk
};

struct HostTier {
  std::vector<Tier> home;   // per buffer
  std::vector<Stay> stays;  // on the host, by buffer, then first
};

// `homes`: device or host; `device`: stays there, by buffer, then first. Error: ResourceExhausted
// naming the tier, what needs it and how much would do.
absl::StatusOr<HostTier> PlanHost(const StepTrace& trace, const Homes& homes,
                                  absl::Span<const Stay> device, const StepTime& time,
                                  const HostTierOptions& options);

}  // namespace colossus

#endif  // COLOSSUS_GEMINI_HOST_TIER_H_
