// CommonSubexpressions: computes equal things once.
//
// Purpose: two nodes are equal if op, operands, attributes, clone number and annotations are; the
// later one is replaced by the earlier. Every op is a function of its operands (random ones of the
// key they are given), so that changes no bit. Nodes of different clone numbers never merge: a
// recomputation stays one. Runs once, after autodiff and before passes that clone on purpose.
// Thread-safety: a function of its argument.
//
//   ASSIGN_OR_RETURN(Rewritten result, CommonSubexpressions(graph));
#ifndef COLOSSUS_TENSOR_PASSES_COMMON_SUBEXPRESSIONS_H_
#define COLOSSUS_TENSOR_PASSES_COMMON_SUBEXPRESSIONS_H_

#include "absl/status/statusor.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/rewriter.h"

namespace colossus {

absl::StatusOr<Rewritten> CommonSubexpressions(const Graph& graph);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_PASSES_COMMON_SUBEXPRESSIONS_H_
