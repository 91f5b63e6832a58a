// DeadCode: drops nodes whose results reach no output and no state's end.
//
// Purpose: cleans up after other passes; also the smallest pass, to copy for a new one. Feeds and
// states stay, read or not.
// Thread-safety: a function of its argument.
//
//   ASSIGN_OR_RETURN(Rewritten result, DeadCode(graph));
#ifndef COLOSSUS_TENSOR_PASSES_DEAD_CODE_H_
#define COLOSSUS_TENSOR_PASSES_DEAD_CODE_H_

#include "absl/status/statusor.h"
#include "tensor/graph/graph.h"
#include "tensor/graph/rewriter.h"

namespace colossus {

absl::StatusOr<Rewritten> DeadCode(const Graph& graph);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_PASSES_DEAD_CODE_H_
