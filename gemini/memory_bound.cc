#include "gemini/memory_bound.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gemini/eviction.h"
#include "gemini/homes.h"

namespace colossus {
namespace {

constexpr size_t kNamed = 5;

// Whether the object must be there at `at`: it is used then, or held since an earlier use.
bool IsHeld(const TierObject& object, int64_t at) {
  for (size_t u = 0; u < object.uses.size() && object.uses[u].at <= at; ++u) {
    if (HeldUntil(object, u) >= at) return true;
  }
  return false;
}

}  // namespace

MemoryBound BoundOf(const StepTrace& trace, const TierObjects& objects) {
  MemoryBound bound;
  bound.bytes = LeastCapacity(objects.objects, &bound.instruction);
  if (bound.instruction < 0) return bound;
  for (size_t o = 0; o < objects.objects.size(); ++o) {
    if (IsHeld(objects.objects[o], bound.instruction)) bound.largest.push_back(objects.buffer[o]);
  }
  std::stable_sort(bound.largest.begin(), bound.largest.end(),
                   [&](int a, int b) { return trace.buffers[a].bytes > trace.buffers[b].bytes; });
  if (bound.largest.size() > kNamed) bound.largest.resize(kNamed);
  return bound;
}

MemoryBound DeviceBound(const StepTrace& trace) {
  const Homes homes = HomesWith(trace, FindGroups(trace), /*on_device=*/0);
  return BoundOf(trace, DeviceObjects(trace, homes.home, homes.on_host));
}

std::string Describe(const StepTrace& trace, const MemoryBound& bound) {
  if (bound.instruction < 0) return "no instruction";
  auto phase = std::upper_bound(trace.phase_end.begin(), trace.phase_end.end(),
                                static_cast<size_t>(bound.instruction));
  std::string text = absl::StrCat("instruction ", bound.instruction, " of phase ",
                                  phase - trace.phase_end.begin(), " (");
  for (size_t k = 0; k < bound.largest.size(); ++k) {
    const TracedBuffer& buffer = trace.buffers[bound.largest[k]];
    absl::StrAppend(&text, k == 0 ? "" : ", ", buffer.what, " ", buffer.bytes, " bytes");
  }
  return absl::StrCat(text, ")");
}

}  // namespace colossus
