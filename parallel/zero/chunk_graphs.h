// The graphs of an update over chunks: reduce, measure and update.
//
// Purpose: what micro_batch_graph.h and update_graph.h do parameter by parameter, chunk by chunk:
//   reduce   one chunk's gradients: the uses of a tied parameter added in fixed order, packed,
//            summed over the ranks that share the chunk (within the model first), each rank keeping
//            its shard, and rounded once
//   measure  the sum of squares of what the ranks own, each element counted once
//   update   the optimizer on shards; parameters gathered where every rank holds them whole
// Thread-safety: plain functions. Ownership: plain values.
//
//   reduce:  feeds the sums of the micro-batches, "sum/..."; outputs "shard/gradient/chunk/3", and
//            "gradient/chunk/3" whole at stage 0
//   measure: feeds the shards; outputs "sum_squares" f64[], on request "whole/gradient/<parameter>"
//   update:  feeds what is updated with, learning_rate, grad_scale, correction1, correction2, of
//            narrow moments rounding_key
#ifndef COLOSSUS_PARALLEL_ZERO_CHUNK_GRAPHS_H_
#define COLOSSUS_PARALLEL_ZERO_CHUNK_GRAPHS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "parallel/zero/layout.h"
#include "tensor/graph/graph.h"
#include "tensor/optim/update.h"

namespace colossus {

// "shard/gradient/chunk/3": this rank's shard of the finished gradient.
std::string GradientShardName(const ZeroChunk& chunk);

// `micro_batch`: a variant's graph; gives the types of the sums. `gradient`: dtype of the finished
// gradient. REQUIRES: the chunk is updated.
absl::StatusOr<Graph> ReduceGraph(const Graph& micro_batch, const ZeroLayout& layout, int chunk,
                                  DType gradient);

// Those that are updated: places in ZeroLayout::chunks, ascending.
std::vector<int> UpdatedChunks(const ZeroLayout& layout);

// Of `chunks`, of those that are updated. `whole_gradients`: outputs WholeGradientName
// (update_graph.h) of every parameter too. `squares`: the output with the sum of squares; empty
// where it is made elsewhere: then there may be nothing to do.
absl::StatusOr<Graph> MeasureChunksGraph(const ZeroLayout& layout, const std::vector<int>& chunks,
                                         DType gradient, bool whole_gradients,
                                         const std::string& squares = "sum_squares");

// One node for those of `chunks` that are of one block.
absl::StatusOr<Graph> UpdateChunksGraph(const ZeroLayout& layout, const std::vector<int>& chunks,
                                        const Optimizer& optimizer, DType gradient);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_ZERO_CHUNK_GRAPHS_H_
