// RecomputeWithin: what of each layer is kept for its backward, planned for a memory budget.
//
// Purpose: Recomputation::kOptimal. The layers of a differentiated model are a chain of stages with
// measured sizes and predicted times; rotor's dynamic programme (gemini/recompute.h) says which
// layers keep all, keep what is dear to make again, or run forward again, once or more often, so
// that the rest takes least time; passes carry that out (tensor/passes/recompute.h).
// Thread-safety: plain functions.
//
//   ASSIGN_OR_RETURN(LayerBytes bytes, BytesOfLayers(graph, blocks, rates));
//   ASSIGN_OR_RETURN(Rewritten r, RecomputeWithin(graph, blocks, rates, bytes.least));
#ifndef COLOSSUS_PARALLEL_RECOMPUTE_LAYERS_H_
#define COLOSSUS_PARALLEL_RECOMPUTE_LAYERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gemini/recompute.h"
#include "tensor/cost/device_rates.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/rewriter.h"

namespace colossus {

// Budgets between which choices differ: with less nothing can run, with more nothing runs again.
struct LayerBytes {
  int64_t least = 0, all = 0;
};

// `graph`: differentiated, without recomputation. `blocks`: tags of its layers, in order. Bytes are
// of the whole graph: of one micro-batch, all ranks that share it together. Error: InvalidArgument
// for a block that the graph does not have.
absl::StatusOr<LayerBytes> BytesOfLayers(const Graph& graph, const std::vector<std::string>& blocks,
                                         const DeviceRates& rates);

// The same graph with what does not fit `budget_bytes` made again. Error: ResourceExhausted with
// the least budget that does.
absl::StatusOr<Rewritten> RecomputeWithin(const Graph& graph,
                                          const std::vector<std::string>& blocks,
                                          const DeviceRates& rates, int64_t budget_bytes);

// One stage a block, with what RecomputeCheap and RecomputeSelective keep as its other ways.
absl::StatusOr<std::vector<RecomputeStage>> ChainOfLayers(const Graph& graph,
                                                      const std::vector<std::string>& blocks,
                                                      const DeviceRates& rates);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_RECOMPUTE_LAYERS_H_
