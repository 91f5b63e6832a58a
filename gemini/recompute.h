// PlanRecompute: which stages of a chain to compute again so that its backward fits a memory.
//
// Purpose: the cheapest schedule of forward and backward over a linear chain of stages with any
// sizes and times, for a memory budget: rotor's dynamic programme. A stage runs forward in one of
// three ways: keeping nothing, keeping its input (a checkpoint), or keeping what its backward
// needs, of which there may be several choices: all, or less with a slower backward that makes the
// rest again. What is kept stays until backward has used it; among such schedules the result is
// the cheapest, up to the rounding of sizes to `slots` parts of the budget.
// Thread-safety: plain functions. Ownership: plain values. Cost: O(stages^3 * slots) time,
// O(stages^2 * slots) memory.
//
//   std::vector<RecomputeStage> chain(48, {.forward_seconds = 1, .backward_seconds = 2,
//                                      .output_bytes = 100, .saved_bytes = 900});
//   ASSIGN_OR_RETURN(RecomputePlan plan, PlanRecompute(chain, {.budget_bytes = 8000}));
//   plan.again;         // per stage: which stages run forward again before its backward
#ifndef COLOSSUS_GEMINI_RECOMPUTE_H_
#define COLOSSUS_GEMINI_RECOMPUTE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace colossus {

// Another choice of what a stage keeps for its backward.
struct SaveWay {
  int64_t saved_bytes = 0;
  double backward_seconds = 0;
};

// Stage i makes x_i of x_{i-1}; x_0, the chain's input, is there throughout and not counted.
struct RecomputeStage {
  double forward_seconds = 0, backward_seconds = 0;
  int64_t output_bytes = 0;    // of x_i
  int64_t gradient_bytes = 0;  // of the gradient of x_i, there from the chain's end, or the next
                               // stage's backward, until this stage's backward has run
  int64_t saved_bytes = 0;     // what its backward needs beside x_{i-1} and the gradient; x_i in it
  int64_t forward_bytes = 0;   // workspace beside output or what is saved
  int64_t backward_bytes = 0;  // workspace, and the gradient of x_{i-1}
  // Beside the way that saved_bytes and backward_seconds tell, which is number 0.
  std::vector<SaveWay> other_ways = {};
};

struct RecomputeOptions {
  int64_t budget_bytes = 0;
  int slots = 500;
};

enum class RecomputeAction : uint8_t {
  kForward,      // x_{i-1} → x_i; drops x_{i-1} unless that is kept
  kCheckpoint,   // the same, and keeps x_{i-1} until the backward of i has run
  kForwardSave,  // x_{i-1} → all that backward of i needs
  kBackward,
};

struct RecomputeStep {
  RecomputeAction action;
  int stage;    // from 0
  int way = 0;  // kForwardSave
};

struct RecomputePlan {
  std::vector<RecomputeStep> steps;
  double seconds = 0;
  std::vector<int> way;  // per stage: of its one kForwardSave
  // Per stage: those that run forward again between the backward of the stage after it and its own.
  std::vector<std::vector<int>> again;
};

// Error: ResourceExhausted with the least budget that does.
absl::StatusOr<RecomputePlan> PlanRecompute(absl::Span<const RecomputeStage> chain,
                                            const RecomputeOptions& options);

// The least budget with which the chain can run, however slowly.
int64_t LeastRecomputeBudget(absl::Span<const RecomputeStage> chain);

// Most bytes of the budget that the steps use at once. REQUIRES: steps of a plan of the chain.
int64_t PeakBytes(absl::Span<const RecomputeStage> chain, absl::Span<const RecomputeStep> steps);

}  // namespace colossus

#endif  // COLOSSUS_GEMINI_RECOMPUTE_H_
