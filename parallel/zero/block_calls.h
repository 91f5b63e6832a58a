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

// What is done once with the results of the last micro-batch.
struct ChunkReduction {
  int segment = 0;
  int part = 0;  // of the last micro-batch's variant: it can run when this part has
};

struct BlockReductions {
  std::vector<ChunkReduction> list;
  bool overlap = true;  // false: after all passes
};

// One pass for each part, nothing gathered: a variant that reads no chunks.
std::vector<BlockPass> PassPerPart(int parts);

// `order`: variants with the micro-batch that each is called for. Reductions belong to the last one
// and run once per step (micro-batch -1).
void AddBlockCalls(StepBuilder& step, const std::vector<std::pair<const BlockVariant*, int>>& order,
                   int phase, const BlockReductions& reductions = {});

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_ZERO_BLOCK_CALLS_H_
