// PlacedPreset: presets on the null device with the memory manager, for tests and tables.
//
// Purpose: the real step of a preset, compiled and run in virtual time under a device cap: whether
// it is accepted, what it copies, how long an update takes. A GPU of 40 TFLOP/s behind a link of
// 12 GB/s unless told otherwise.
// Thread-safety: plain functions. Ownership: plain values.
//
//   PresetRun run = RunPreset({"gpt2-1.5b", 4, 1024, 1}, {.device = 6'000'000'000});
#ifndef COLOSSUS_TESTS_PLACEMENT_PLACED_PRESET_H_
#define COLOSSUS_TESTS_PLACEMENT_PLACED_PRESET_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "gemini/placement.h"
#include "gemini/report.h"
#include "parallel/plan.h"
#include "tensor/exec/placement.h"

namespace colossus {

struct PresetJob {
  std::string preset;
  int64_t rows = 1, length = 1024, micro_batches = 1;
  int64_t layers = 0;  // not 0: no preset, but so many of gpt2-1.5b's layers
  Recomputation recomputation = Recomputation::kBlock;
  AccumulationOrder order = AccumulationOrder::kAuto;
  UpdateTime update = UpdateTime::kWhole;
};

struct PresetCaps {
  int64_t device = INT64_MAX, host = INT64_MAX;
  int64_t disk = 0;
  double link_bytes_per_second = 12e9;
  bool placed = true;  // false: without a memory manager
  PlacementPolicy policy = PlacementPolicy::kAuto;
};

struct PresetRun {
  absl::Status status;
  int64_t parameters = 0;
  int64_t device_bytes = 0;  // of the device arena
  int asked = 0;             // how often the placer was
  double seconds = 0;        // of one update, on the null device
  PlacementReport report;    // traffic of an update; of placed runs
};

PresetRun RunPreset(const PresetJob& job, const PresetCaps& caps);

// The question that a placer is asked.
StepTrace TraceOfPreset(const PresetJob& job);

// Phases of an update, the first ones of a training step.
inline constexpr int kUpdatePhases = 3;

}  // namespace colossus

#endif  // COLOSSUS_TESTS_PLACEMENT_PLACED_PRESET_H_
