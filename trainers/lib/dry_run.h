// DryRun: what a training run would need and move, from its compiled program, without its memory.
//
// Thread-safety: plain functions; they compile on the calling thread. Ownership: plain values.
//
//   ASSIGN_OR_RETURN(const DryRun run, PlanDryRun(options, model));
//   if (!run.fits) log.Error(run.refusal);
#ifndef COLOSSUS_TRAINERS_LIB_DRY_RUN_H_
#define COLOSSUS_TRAINERS_LIB_DRY_RUN_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "shardformer/config.h"
#include "tensor/exec/memory_plan.h"
#include "trainers/lib/options.h"

namespace colossus {

struct DryTier {
  std::string name;                  // "device", "host", "disk"
  std::optional<int64_t> capacity;   // none: no bound
  int64_t peak = 0;                  // bytes
  std::vector<Contributor> largest;  // at the peak, at most five
};

struct DryRun {
  bool fits = false;
  std::string refusal;     // why it does not
  int64_t parameters = 0;  // elements
  int64_t tokens = 0;      // of an update
  // All below only where it fits.
  std::array<DryTier, 3> tiers;
  TierTraffic traffic;  // of an update
  std::optional<int64_t> traffic_bound;
  std::optional<double> hidden;  // share of the time of copies
  double seconds = 0;            // of an update, predicted
};

// REQUIRES: options.run.device is "null". Error: a model or plan that cannot be run at any size.
absl::StatusOr<DryRun> PlanDryRun(const Options& options, const ModelConfig& model);

// Changes of single settings that make a run fit which does not, in words, each of them tried.
std::vector<std::string> WhatWouldFit(const Options& options, const ModelConfig& model);

// For people, and for programs.
std::vector<std::string> DryRunLines(const DryRun& run);
nlohmann::ordered_json DryRunJson(const DryRun& run);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_DRY_RUN_H_
