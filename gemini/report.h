// PlacementReport: what a placement needs and moves, for people and for metrics.
//
// Purpose: per tier the most bytes at once and the five things that take most of them then; bytes
// copied by what they carry, beside their lower bounds; how much of the copying hides. Sums of
// bytes, where only a placement is known; of a program what its memory plan says, to the last byte,
// and the times of its own timeline.
// Thread-safety: plain functions. Ownership: plain values.
//
//   LOG << ToText(ReportProgram(program, {kAccumulatePhase, kMeasurePhase, kUpdatePhase}));
#ifndef COLOSSUS_GEMINI_REPORT_H_
#define COLOSSUS_GEMINI_REPORT_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gemini/memory_bound.h"
#include "gemini/peak_parts.h"
#include "gemini/placed_time.h"
#include "gemini/traffic.h"
#include "tensor/exec/memory_plan.h"
#include "tensor/exec/placement.h"
#include "tensor/exec/program.h"

namespace colossus {

struct TierReport {
  int64_t capacity = 0;     // INT64_MAX: no bound
  int64_t homes = 0;        // bytes of states that live there
  int64_t peak = 0;         // most bytes at once, homes among them
  int64_t instruction = 0;  // when, of the trace; not said of a program
  std::vector<Contributor> largest;
  HeldBytes parts = {};     // what it is for; said of a program only
};

struct PlacementReport {
  std::array<TierReport, 3> tiers;  // by Tier; of disk only homes are counted
  // In one run of each phase that is counted.
  TierTraffic moved;
  TrafficBound bound;
  int64_t evictions = 0;
  MemoryBound least_device;  // nothing: the program is not placed
  PlacedTime time;  // of the whole trace; of a program, of one run of each phase that is counted
};

// Traffic is that of the first `phases` phases, those of an update; -1: all.
PlacementReport ReportPlacement(const StepTrace& trace, const Placement& placement,
                                const TierBytes& tiers, const PlacedTimeOptions& rates,
                                int phases = -1);

// Of the phases given, one after another. Host memory counts the buffers of its disk too. Of a
// program that is not placed: what it takes of the device and of the host; nothing is moved.
PlacementReport ReportProgram(Program& program, absl::Span<const int> phases);

//   device: peak 5,900,000,000 of 6,000,000,000 bytes, 0 of them homes; no cap below 1,234,567
//     of it: states 1,234, gathered 4,567, ...
//     160,822,400  h.0.attention.w
//   ...
//   to device: parameters 6,230,444,800, gradients 0, states 0, activations 0; least 6,100,000,000
//   ...
std::string ToText(const PlacementReport& report);

}  // namespace colossus

#endif  // COLOSSUS_GEMINI_REPORT_H_
