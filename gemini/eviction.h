// PlanStays: when objects are in a small memory, by their recorded uses.
//
// Purpose: the engine of placement, for any one tier. Objects have bytes and uses in time order; a
// use needs its object there, and all uses of one instant at once. What does not fit is evicted:
// first what is used again latest (Belady), where an object that must be copied out counts as
// nearer, since it costs a copy each way. Values that are overwritten before they are read again,
// or never used again, leave for free. Stays are as short as they can be at that traffic: they
// begin at a use and end at one, so that the memory in between is there for whoever copies early or
// late (gemini/lookahead.h). Objects may have any sizes, so the result is a good one, not the best;
// with equal sizes and nothing written it is the best.
// Thread-safety: plain functions. Ownership: plain values.
//
//   std::vector<TierObject> objects = {
//       {.bytes = 64, .uses = {{.at = 0}, {.at = 5}}, .below = true}};
//   ASSIGN_OR_RETURN(TierPlan plan, PlanStays(objects, /*capacity=*/1024));
//   plan.stays;      // object 0 from 0 to 5, loaded
#ifndef COLOSSUS_GEMINI_EVICTION_H_
#define COLOSSUS_GEMINI_EVICTION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace colossus {

struct TierUse {
  int64_t at = 0;     // when, an instruction
  int64_t until = 0;  // it must stay where it is until then, inclusive; below `at`: until `at`
  bool writes = false;
  bool overwrites = false;  // all of it, without reading: what it held before is of no use
};

struct TierObject {
  int64_t bytes = 0;
  std::vector<TierUse> uses;  // `at` strictly ascending
  bool below = false;         // before the first use the tier below holds its value
  bool wanted_below = false;  // after the last use the tier below must hold its value
  bool pinned = false;        // never evicted between its first and its last use
};

// When use number `use` of the object, or the object if it is pinned, lets go: the last instant at
// which it must be there because of it.
int64_t HeldUntil(const TierObject& object, size_t use);

struct TierStay {
  int object = 0;
  int64_t first = 0, last = 0;  // instants, inclusive
  bool load = false;            // begins by a copy from the tier below
  int64_t store_after = -1;  // the last write, whose result is copied to the tier below; -1: none
  // It was there until then at no cost; from `last` to there the memory may be given away.
  int64_t kept = 0;
};

struct TierPlan {
  std::vector<TierStay> stays;  // by object, then `first`
  int64_t loads = 0, loaded_bytes = 0;
  int64_t stores = 0, stored_bytes = 0;
  int64_t evictions = 0;  // stays that end though the value is used again
  int64_t peak = 0;       // most bytes at any instant, of stays from `first` to `kept`
};

// `nearer`: how many times as near an object counts that must be copied out. Two is good where
// memory is short throughout; more where it is at one time only, which one eviction of anything
// gets over. Error: ResourceExhausted naming an instant whose own objects take more than
// `capacity`, or if that is below 0.
absl::StatusOr<TierPlan> PlanStays(absl::Span<const TierObject> objects, int64_t capacity,
                                   int64_t nearer = 2);

// The same where an instant's own objects may take up to `most`, alone if that is more than
// `capacity`, which may be below 0. With little capacity little outlives an instant, so that what
// comes next can lie anywhere.
absl::StatusOr<TierPlan> PlanSparseStays(absl::Span<const TierObject> objects, int64_t capacity,
                                         int64_t most, int64_t nearer = 2);

// The largest sum of bytes that any instant uses or still holds (`until`, pinned objects): the
// smallest capacity that PlanStays accepts. `at`, if asked for, is that instant; -1 without uses.
int64_t LeastCapacity(absl::Span<const TierObject> objects, int64_t* at = nullptr);

}  // namespace colossus

#endif  // COLOSSUS_GEMINI_EVICTION_H_
