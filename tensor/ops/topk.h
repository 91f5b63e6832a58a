// topk: the k largest entries of each row, for routing.
//
// Purpose: descending; of equal entries the lower index comes first, so that the choice does not
// depend on the kernel. The gradient scatters back to the entries chosen.
// Thread-safety: stateless singletons.
//
//   TopkResults top = Topk(b, probabilities, 2);
#ifndef COLOSSUS_TENSOR_OPS_TOPK_H_
#define COLOSSUS_TENSOR_OPS_TOPK_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/op.h"

namespace colossus {

// Operand: scores[n e] float. Attribute: k (int, 1 <= k <= e). Results: values[n k], indices[n k]
// i32.
const Op& TopkOp();

// Operands: dvalues[n k] float, indices[n k] i32 (as topk gives them: each once per row).
// Attribute: entries (int: e). Result: dscores[n e].
const Op& TopkGradOp();

struct TopkResults {
  ValueId values, indices;
};
TopkResults Topk(GraphBuilder& graph, ValueId scores, int64_t k, absl::string_view name = "");

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_TOPK_H_
