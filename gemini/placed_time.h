// TimePlacement: how long a step takes with its copies, in virtual time.
//
// Purpose: predicts a placement before anything is compiled for it, to choose among placements and
// to say how much of the copies hides behind compute. Streams as in tensor/exec: compute, link,
// host, and one each for copies in, out, from and to disk, each in order; whoever needs a value
// waits for the copy that brings it; a load starts when the device has begun the instruction
// before its stay. Waits for memory are not known before offsets are, so the Program's own
// timeline may be a little longer.
// Thread-safety: a plain function. Ownership: plain values.
//
//   PlacedTime time = TimePlacement(trace, placement, {.link_bytes_per_second = 12e9});
//   time.hidden();     // 0.95
#ifndef COLOSSUS_GEMINI_PLACED_TIME_H_
#define COLOSSUS_GEMINI_PLACED_TIME_H_

#include "tensor/exec/placement.h"

namespace colossus {

struct PlacedTimeOptions {
  double link_bytes_per_second = 10e9, disk_bytes_per_second = 1e9;  // each direction
};

struct PlacedTime {
  double seconds = 0;
  double without_copies = 0;  // were copies free
  double copying = 0;         // of all copies, one after another
  // Share of copying that nothing waited for.
  double hidden() const;
};

PlacedTime TimePlacement(const StepTrace& trace, const Placement& placement,
                         const PlacedTimeOptions& options);

}  // namespace colossus

#endif  // COLOSSUS_GEMINI_PLACED_TIME_H_
