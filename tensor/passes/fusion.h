// Fusion: joins pointwise ops, conversions and dropout into chains (tensor/ops/chain.h).
//
// Purpose: values between the joined ops never reach memory, and what several of them read is read
// once. A region is grown along data: a node joins the regions that make its operands if all have
// the same dims, block and clone number, and no node outside that stands before it reads any of
// their values. The chain stands where its last node stood; values read elsewhere are its results.
// Results are bitwise equal: each step rounds as the op alone does.
// Runs inside a segment, after everything that looks at single ops (autodiff, recomputation,
// sharding): a chain has no gradient.
// Thread-safety: a function of its argument.
//
//   ASSIGN_OR_RETURN(Rewritten result, Fusion(graph));
//
// Before:  %b = add(%a, %bias)   %y = gelu(%b)   output b = %b   output y = %y
// After:   %b, %y = chain(%a, %bias) {results=[0, 1], steps=["add x0 x1", "gelu t0"]}
#ifndef COLOSSUS_TENSOR_PASSES_FUSION_H_
#define COLOSSUS_TENSOR_PASSES_FUSION_H_

#include "absl/status/statusor.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/rewriter.h"

namespace colossus {

// Values that stay inside a chain map to kNoValue.
absl::StatusOr<Rewritten> Fusion(const Graph& graph);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_PASSES_FUSION_H_
