// BlockCalls: the calls of micro-batches block by block, with gathers and reductions around them.
//
// Purpose: the order of a step whose parameters or gradients lie in chunks. The chunks of a block's
// pass are gathered while the pass before it runs. A chunk's gradient is reduced while the passes
// after its last one run, and has been when two of them have; or, at the end, after all passes.
// What is reduced or gathered therefore takes memory for two passes at most, and communication runs
// beside compute (StepSegment::link).
// Thread-safety: plain functions.
//
//   AddBlockCalls(step, {{&first, 0}, {&rest, 1}}, kAccumulatePhase, reductions);
#ifndef COLOSSUS_PARALLEL_ZERO_BLOCK_CALLS_H_
#define COLOSSUS_PARALLEL_ZERO_BLOCK_CALLS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "parallel/zero/read_chunks.h"
#include "tensor/exec/step.h"

namespace colossus {

// A graph cut into blocks, as segments of a step.
struct BlockVariant {
  std::vector<int> segments;  // per part
  std::vector<BlockPass> passes;
  std::vector<int> gathers;  // per pass: the segment that gathers for it, or -1
};

// What is done once with the results of the last micro-batch: a reduction, or an update.
struct ChunkReduction {
  int segment = 0;
  int part = 0;  // of the last micro-batch's variant: it can run when this part has; -1: at the end
  bool link = true;  // false: nothing waits for it
  // It reads what a link call makes: called one pass later, beside which the link runs.
  bool behind_link = false;
};

struct BlockReductions {
  std::vector<ChunkReduction> list;
  bool overlap = true;  // false: after all passes
};

// A pass of a variant for a micro-batch, or, if `variant` is null, a call of a link segment.
struct BlockCall {
  const BlockVariant* variant = nullptr;
  int micro_batch = 0;
  size_t pass = 0;
  int link = -1;
  int64_t order = 0;  // among the calls of all stages of a pipeline
  // The micro-batch that its chunks are gathered for: its own, another one (whose gathered chunks
  // its segments then read), or none, where an earlier call's are still there.
  static constexpr int kOwn = -2, kNone = -3;
  int gathered_for = kOwn;
};

// One pass for each part, nothing gathered: a variant that reads no chunks.
std::vector<BlockPass> PassPerPart(int parts);

// Adds the calls in this order. Reductions belong to the passes of variant `last` for
// `last_micro_batch` and run once per step (micro-batch -1).
void AddBlockCalls(StepBuilder& step, const std::vector<BlockCall>& calls, int phase,
                   const BlockReductions& reductions, const BlockVariant* last,
                   int last_micro_batch);

// The calls of a vertical order: pass by pass, each for all micro-batches, in their order. What a
// pass gathers is gathered once, for the last micro-batch, and read by all. `order`: variants of
// the same passes, with the micro-batch that each is called for.
std::vector<BlockCall> VerticalCalls(const std::vector<std::pair<const BlockVariant*, int>>& order);

// Whole variants one after another, with the micro-batch that each is called for; reductions belong
// to the last one.
void AddBlockCalls(StepBuilder& step, const std::vector<std::pair<const BlockVariant*, int>>& order,
                   int phase, const BlockReductions& reductions = {});

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_ZERO_BLOCK_CALLS_H_
