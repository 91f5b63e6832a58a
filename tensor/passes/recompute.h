// Recompute: trades memory for arithmetic, block by block.
//
// Purpose: values that a block's forward makes and only gradients read are not kept; the nodes that
// make them are cloned (clone = 1) right before the first gradient node that needs them. In a graph
// position is schedule, so the clones are where they cost the least memory.
// What is kept: the block's inputs, what other blocks read, outputs and states' ends, and every
// other result of a node that makes one of those. Clones read kept values and other clones only.
// Results are bitwise equal: the same ops read the same operands; dropout's mask is a function of
// its key, site and element. Running it again changes nothing.
// RecomputeCheap does the same for single nodes of any block that cost little and whose operands
// gradients keep alive anyway: an activation beside its argument, a norm's result beside its row;
// RecomputeSelective for attention too.
// RecomputeChain follows a plan for a chain of blocks (gemini/recompute.h), in which one may run
// forward several times and the borders between blocks need not be kept either.
// Thread-safety: functions of their arguments.
//
//   ASSIGN_OR_RETURN(Rewritten result, Recompute(graph, {"h.0", "h.1"}));
//
// Before:  %y = gelu(%x) @h.0   ...               %dx = gelu_grad(%dz, %y) @h.0.grad
// After:   %y = gelu(%x) @h.0   ...  %y.clone1 = gelu(%x) @h.0 clone=1
//                                                 %dx = gelu_grad(%dz, %y.clone1) @h.0.grad
#ifndef COLOSSUS_TENSOR_PASSES_RECOMPUTE_H_
#define COLOSSUS_TENSOR_PASSES_RECOMPUTE_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/rewriter.h"

namespace colossus {

// `blocks`: tags of forward nodes, each a region of its own. Old values map to their originals.
// Error: InvalidArgument for a block that the graph does not have.
absl::StatusOr<Rewritten> Recompute(const Graph& graph, const std::vector<std::string>& blocks);

// Clones forward nodes that are bound by memory (pointwise ops, norms), of whose results only
// gradients are late readers, and whose operands are states, feeds, values that gradients read
// themselves, or such clones. What it saves costs a pass over those operands. `blocks`: only of
// these; empty: of all.
absl::StatusOr<Rewritten> RecomputeCheap(const Graph& graph,
                                         const std::set<std::string>& blocks = {});

// The same, and the cores of attention as well: of a layer only results of products are kept. What
// it saves beyond that costs attention's forward.
absl::StatusOr<Rewritten> RecomputeSelective(const Graph& graph,
                                             const std::set<std::string>& blocks = {});

// `blocks`: tags in the order of the model. `again`, per block: indices of blocks that are
// forgotten when its backward begins; what a backward reads of a forgotten block, and what that is
// made of, is made again at that point and there until it is forgotten once more. Of the values
// that a block makes those are always kept that the forward of no block given here reads. May
// follow RecomputeCheap or RecomputeSelective. Error: InvalidArgument for a block that the graph
// does not have.
absl::StatusOr<Rewritten> RecomputeChain(const Graph& graph, const std::vector<std::string>& blocks,
                                         const std::vector<std::vector<int>>& again);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_PASSES_RECOMPUTE_H_
