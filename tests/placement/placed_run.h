// PlacedRun: a LayoutRun on small devices that behave like GPUs, with the memory manager.
//
// Purpose: whatever is moved must not show in a bit, so tests give a run caps and compare it with
// the run without. The devices' work runs as late as waits allow, in a random order.
// Thread-safety: plain functions. Ownership: plain values.
//
//   ASSERT_OK_AND_ASSIGN(const LayoutResult expected, Train(run));
//   const LayoutRun capped = Capped(run, {.device = {60'000}}, seed);
//   ASSERT_OK_AND_ASSIGN(const LayoutResult placed, Train(capped));
//   ExpectSameBits(placed, expected);
#ifndef COLOSSUS_TESTS_PLACEMENT_PLACED_RUN_H_
#define COLOSSUS_TESTS_PLACEMENT_PLACED_RUN_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gemini/placement.h"
#include "tensor/exec/placement.h"
#include "tests/layouts/layout_run.h"

namespace colossus {

// Bytes for each rank.
struct Caps {
  std::vector<int64_t> device;  // by rank; of one entry: the same for all
  int64_t host = INT64_MAX, disk = 0;
  PlacementPolicy policy = PlacementPolicy::kAuto;
  bool place_only_what_does_not_fit = false;

  int64_t DeviceOf(int rank) const { return device.size() == 1 ? device[0] : device[rank]; }
  std::string ToString() const;
};

LayoutRun Capped(LayoutRun run, const Caps& caps, uint64_t seed);

// The question that each rank's placer is asked.
std::vector<StepTrace> TracesOf(const LayoutRun& run);

// What a device needs that holds everything at once, at most.
int64_t PlainBytes(const StepTrace& trace);

// What devices may have, by rank: their bound, and more than everything at once takes.
struct DeviceRange {
  std::vector<int64_t> bound, plain;
};
DeviceRange DeviceRangeOf(const LayoutRun& run);

// So much of each rank's bound.
Caps OfBound(const DeviceRange& range, int percent);

// least <= result < end
int64_t Between(int64_t least, int64_t end, std::mt19937_64& random);

}  // namespace colossus

#endif  // COLOSSUS_TESTS_PLACEMENT_PLACED_RUN_H_
