// BlockMemory: what consecutive blocks of a model hold, in bytes.
//
// Purpose: for borders that balance memory (cut.h). States are held all the time; activations, what
// a forward makes and a backward reads, by each micro-batch between the two. What several of the
// blocks read is held once. Work memory is not counted.
// Thread-safety: const methods. Ownership: a plain value.
//
//   BlockMemory memory = BlockMemory::Of(graph, blocks, bytes_of_state);
//   memory.states(0, 3) + kept_micro_batches * memory.activations(0, 3);
#ifndef COLOSSUS_PARALLEL_PIPELINE_BLOCK_MEMORY_H_
#define COLOSSUS_PARALLEL_PIPELINE_BLOCK_MEMORY_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tensor/graph/graph.h"

namespace colossus {

// Something that is held where at least one of the blocks is.
struct HeldByBlocks {
  double bytes = 0;
  std::vector<size_t> blocks;  // ascending, not empty
};

class BlockMemory {
 public:
  BlockMemory(size_t blocks, const std::vector<HeldByBlocks>& states,
              const std::vector<HeldByBlocks>& activations);

  // Of a differentiated graph. `bytes_of_state`: of a state and what is kept beside it; a state
  // that no block reads lies with the first.
  static BlockMemory Of(const Graph& graph, const std::vector<std::string>& blocks,
                        const std::function<double(const State&)>& bytes_of_state);

  // Of blocks [first, end). REQUIRES: first <= end <= blocks.
  double states(size_t first, size_t end) const { return states_[first][end]; }
  // Of one micro-batch.
  double activations(size_t first, size_t end) const { return activations_[first][end]; }

 private:
  std::vector<std::vector<double>> states_, activations_;  // by first and end
};

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_PIPELINE_BLOCK_MEMORY_H_
