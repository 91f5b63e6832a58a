// Homes: where states live, and which instructions run on the host because of that.
//
// Purpose: states that one update uses together (a parameter, its master and moments, or those of a
// block) live together: either all on the device, where their update then runs, or all on the host
// and disk, where it runs on the host. What else may run on the host does where its operands are
// made for it.
// Thread-safety: plain functions. Ownership: plain values.
//
//   StateGroups groups = FindGroups(trace);
//   Homes homes = HomesWith(trace, groups, /*on_device=*/3);   // the three most useful groups
#ifndef COLOSSUS_GEMINI_HOMES_H_
#define COLOSSUS_GEMINI_HOMES_H_

#include <cstdint>
#include <vector>

#include "tensor/exec/placement.h"

namespace colossus {

// Groups of states, those first that save most copies per byte of device memory; of equals those
// used first, or the smallest.
struct StateGroups {
  std::vector<std::vector<int>> states;  // per group: buffers
  std::vector<int64_t> bytes;            // per group
};

StateGroups FindGroups(const StepTrace& trace, bool smallest_first = false);

struct Homes {
  std::vector<Tier> home;     // per buffer; kDevice for those without a home
  std::vector<bool> on_host;  // per instruction
  int64_t device_bytes = 0;   // of homes there
};

// The first `on_device` groups at home on the device, the others on the host; states whose home the
// trace gives, there.
Homes HomesWith(const StepTrace& trace, const StateGroups& groups, size_t on_device);

// States in the order in which they give up the host for the disk: moments, then masters, then
// parameters, then the rest; of each kind what is used last first. Only those that `home` has on
// the host and the trace does not.
std::vector<int> OrderToDisk(const StepTrace& trace, const std::vector<Tier>& home);

}  // namespace colossus

#endif  // COLOSSUS_GEMINI_HOMES_H_
