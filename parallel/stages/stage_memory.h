// StageMemory: what the stages of a pipeline would hold, for borders that balance it.
//
// Purpose: from a model's graph and plan the bytes of any consecutive blocks on any stage: states
// with their optimizer's and their gradients, as ZeRO splits them, and the activations of as many
// micro-batches as the schedule keeps. An estimate: what a program needs in the end, work memory
// included, its memory plan says.
// Thread-safety: plain functions. Ownership: plain values.
//
//   Balance balance = MemoryBalance(plan, config, graph, KeptOfParts(*schedule, shape), optimizer,
//                                   device_bytes);
//   ModelCut cut = CutBalanced(blocks, seconds, parts, balance);
#ifndef COLOSSUS_PARALLEL_STAGES_STAGE_MEMORY_H_
#define COLOSSUS_PARALLEL_STAGES_STAGE_MEMORY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "parallel/pipeline/action.h"
#include "parallel/pipeline/cut.h"
#include "parallel/pipeline/schedule.h"
#include "parallel/plan.h"
#include "shardformer/config.h"
#include "tensor/graph/graph.h"
#include "tensor/optim/update.h"

namespace colossus {

// Of each part the micro-batches whose activations its stage keeps at most at once. `searched`
// keeps to any limit; here it counts as 1f1b does, with several chunks one for each of the
// stages.
std::vector<double> KeptOfParts(const Schedule& schedule, const PipelineShape& shape);

// Bytes of parts, and what each may hold: all of a device, shared out evenly over the parts of a
// stage; none: any amount. `graph`: differentiated; of all ranks together where stages have meshes
// of their own, else this rank's share.
Balance MemoryBalance(const Plan& plan, const ModelConfig& config, const Graph& graph,
                      std::vector<double> kept_of_parts, const Optimizer& optimizer,
                      std::optional<int64_t> device_bytes);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_STAGES_STAGE_MEMORY_H_
