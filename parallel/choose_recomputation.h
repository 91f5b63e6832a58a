// ChooseRecomputation: which activations to compute again, together with where values lie.
//
// Purpose: Recomputation::kAuto, and kOptimal without a budget. Every way is compiled for a null
// device of the same memory, kernels and placer, an update runs in virtual time, and the fastest
// one that fits is taken: what recomputing saves in copies it costs in arithmetic. kAuto tries the
// same way for all layers first, then, as kOptimal does, budgets for what each layer keeps
// (recompute_layers.h): beyond the budget the placer moves activations, below it they are made
// again. Where nothing has to be computed again and nothing moves, none is, at once. All ranks look
// at the programs of each stage's first rank, so all choose alike.
// Thread-safety: plain functions.
//
//   ASSIGN_OR_RETURN(RecomputationChoice choice,
//                    ChooseRecomputation(config, plan, options, *device));
#ifndef COLOSSUS_PARALLEL_CHOOSE_RECOMPUTATION_H_
#define COLOSSUS_PARALLEL_CHOOSE_RECOMPUTATION_H_

#include <string>

#include "absl/status/statusor.h"
#include "parallel/plan.h"
#include "parallel/training_step.h"
#include "shardformer/config.h"
#include "tensor/exec/device.h"

namespace colossus {

// Whether the plan leaves it open.
bool IsChosen(const Plan& plan);

struct RecomputationChoice {
  Plan plan;  // with a recomputation, and of kOptimal a budget
  // "recompute=auto chose cheap: 1.25 s an update as predicted; none does not fit, block 1.31 s"
  std::string why;
};

// REQUIRES: IsChosen. Error: that of the way that needs least, if none fits.
absl::StatusOr<RecomputationChoice> ChooseRecomputation(const ModelConfig& config, const Plan& plan,
                                                        const TrainingOptions& options,
                                                        const Device& device);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_CHOOSE_RECOMPUTATION_H_
