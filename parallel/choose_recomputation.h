// ChooseRecomputation: which activations to compute again, together with where values lie.
//
// Purpose: Recomputation::kAuto. Every way is compiled for a null device of the same memory,
// kernels and placer, an update runs in virtual time, and the fastest one that fits is taken: what
// recomputing saves in copies it costs in arithmetic. Where nothing has to be computed again and
// nothing moves, none is, at once. All ranks look at the programs of each stage's first rank, so
// all choose alike.
// Thread-safety: a plain function. Ownership: plain values.
//
//   ASSIGN_OR_RETURN(plan.recomputation, ChooseRecomputation(config, plan, options, *device));
#ifndef COLOSSUS_PARALLEL_CHOOSE_RECOMPUTATION_H_
#define COLOSSUS_PARALLEL_CHOOSE_RECOMPUTATION_H_

#include "absl/status/statusor.h"
#include "parallel/plan.h"
#include "parallel/training_step.h"
#include "shardformer/config.h"
#include "tensor/exec/device.h"

namespace colossus {

// `plan.recomputation` does not count. Error: that of the way that needs least, if none fits.
absl::StatusOr<Recomputation> ChooseRecomputation(const ModelConfig& config, const Plan& plan,
                                                  const TrainingOptions& options,
                                                  const Device& device);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_CHOOSE_RECOMPUTATION_H_
