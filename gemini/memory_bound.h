// MemoryBound: the least memory that any placement of a step needs.
//
// Purpose: whoever caps the device wants to know how low it can go. An instruction needs all its
// buffers at once, and communication holds some for longer; nothing else must be on the device.
// What is printed beside the smallest accepted cap, and in refusals.
// Thread-safety: plain functions. Ownership: plain values.
//
//   MemoryBound bound = DeviceBound(trace);
//   bound.bytes;                    // no cap below this can run
#ifndef COLOSSUS_GEMINI_MEMORY_BOUND_H_
#define COLOSSUS_GEMINI_MEMORY_BOUND_H_

#include <cstdint>
#include <string>
#include <vector>

#include "gemini/tier_objects.h"
#include "tensor/exec/placement.h"

namespace colossus {

struct MemoryBound {
  int64_t bytes = 0;
  int64_t instruction = -1;  // one that needs them; -1: nothing is needed
  std::vector<int> largest;  // of the buffers it needs the five largest, largest first
};

// Everything lives on the host, and what may run there does. Placements that give states homes on
// the device need more.
MemoryBound DeviceBound(const StepTrace& trace);

// Of the objects given, on the device or the host.
MemoryBound BoundOf(const StepTrace& trace, const TierObjects& objects);

// "instruction 12 of phase 0 (h.3.mlp.w 4096 bytes, ...)", for refusals.
std::string Describe(const StepTrace& trace, const MemoryBound& bound);

}  // namespace colossus

#endif  // COLOSSUS_GEMINI_MEMORY_BOUND_H_
