// The calls of a training step that measure and update.
//
// Purpose: what a step does with finished gradients: all at once after the last micro-batch, or,
// with layer-wise updates, those of a block as soon as they are summed up and nothing of the step
// reads the block's parameters any more.
// Thread-safety: plain functions. Ownership: plain values.
//
//   RETURN_IF_ERROR(AddMeasureAndUpdate(training, plan, options, sums, device, step));
#ifndef COLOSSUS_PARALLEL_UPDATE_CALLS_H_
#define COLOSSUS_PARALLEL_UPDATE_CALLS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "parallel/plan.h"
#include "parallel/training_step.h"
#include "parallel/zero/block_calls.h"
#include "tensor/exec/device.h"
#include "tensor/exec/step.h"
#include "tensor/graph/graph.h"

namespace colossus {

// The phases measure and update. `micro_batch`: the graph that makes the finished sums.
absl::Status AddMeasureAndUpdate(const LocalTraining& training, const Plan& plan,
                                 const TrainingOptions& options, const Graph& micro_batch,
                                 const Device& device, StepBuilder& step);

// Segments that measure and update layer by layer, added to `reductions`, those of chunks, to be
// called with them (block_calls.h). `last`: the variant of the last micro-batch.
absl::StatusOr<BlockReductions> AddLayerUpdates(const LocalTraining& training, const Plan& plan,
                                                const TrainingOptions& options,
                                                const Device& device, const Graph& micro_batch,
                                                const Variant& last, BlockReductions reductions,
                                                StepBuilder& step);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_UPDATE_CALLS_H_
