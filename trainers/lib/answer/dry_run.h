// DryRun: what a training run would need and move, from its compiled programs, without its memory.
//
// Thread-safety: plain functions; they compile on the calling thread. Ownership: plain values.
//
//   ASSIGN_OR_RETURN(const DryRun run, PlanDryRun(options, model));
//   if (!run.fits) log.Error(run.refusal);
#ifndef COLOSSUS_TRAINERS_LIB_ANSWER_DRY_RUN_H_
#define COLOSSUS_TRAINERS_LIB_ANSWER_DRY_RUN_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gemini/report.h"
#include "nlohmann/json.hpp"
#include "shardformer/config.h"
#include "trainers/lib/config/options.h"

namespace colossus {

// Ranks whose programs take the same memory and time: those of a stage.
struct RankClass {
  int first = 0, count = 1;          // ranks [first, first + count)
  PlacementReport report;            // of one update of one of them
  std::vector<std::string> choices;  // what was chosen where the options say auto, and why
};

struct DryRun {
  bool fits = false;
  std::string refusal;     // why it does not
  int64_t parameters = 0;  // elements, of the whole model
  int64_t tokens = 0;      // of an update
  int ranks = 1;
  std::array<int64_t, 3> capacity = {};  // of a rank, by tier; INT64_MAX: no bound
  std::vector<RankClass> classes;        // where it fits
  // Of an update, predicted: of the slowest rank, whose waits for other stages are not counted.
  double seconds() const;
};

// REQUIRES: options.run.device is "null". Error: a model or plan that cannot be run at any size.
absl::StatusOr<DryRun> PlanDryRun(const Options& options, const ModelConfig& model);

// Changes of single settings that make a run fit which does not, in words, each of them tried.
std::vector<std::string> WhatWouldFit(const Options& options, const ModelConfig& model);

// For people, and for programs.
std::vector<std::string> DryRunLines(const DryRun& run);
nlohmann::ordered_json DryRunJson(const DryRun& run);

}  // namespace colossus

#endif  // COLOSSUS_TRAINERS_LIB_ANSWER_DRY_RUN_H_
