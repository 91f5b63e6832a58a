// Experts: tokens sorted by expert, products per expert, and the way back.
//
//   dispatch: x[n c], experts[n k] -> rows sorted by expert, counts per expert, order
//   grouped_matmul: rows of expert e times w[e]
//   combine: y[token] = sum over its slots of weight * row
//
// Purpose: mixture layers. `order` says which (token * k + slot) a row came from, -1 for a row that
// holds nothing; rows past the counts are zero. Expert ids outside [0, experts) are not
// dispatched.
// Thread-safety: stateless singletons.
//
//   DispatchResults d = Dispatch(b, x, chosen, 8);
//   ValueId h = GroupedMatmul(b, d.rows, w, d.counts);
//   ValueId y = Combine(b, h, d.order, weights);
#ifndef COLOSSUS_TENSOR_OPS_EXPERTS_H_
#define COLOSSUS_TENSOR_OPS_EXPERTS_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/op.h"

namespace colossus {

// Operands: x[n c] float, experts[n k] i32. Attribute: experts (int: E). Results: rows[n*k c] (x's
// dtype; by expert, then by token * k + slot), counts[E] i32, order[n*k] i32.
const Op& DispatchOp();
// Operands: drows[m c], order[m] i32. Attributes: tokens (int: n), slots (int: k). Result: dx[n c],
// the sum over a token's slots in slot order.
const Op& DispatchGradOp();

// Operands: rows[m c] float, order[m] i32, weights[n k] (any float dtype). Result: [n c] in rows'
// dtype; slots are added in slot order.
const Op& CombineOp();
// Operands: dy[n c], rows[m c] (one dtype), order[m], weights[n k]. Results: drows, dweights.
const Op& CombineGradOp();

// Operands: x[m c], w[E c d] (or [E d c] with transpose; one float dtype), counts[E] i32.
// Attributes: transpose (bool, false), dtype (string, optional). Result: [m d]; rows are taken by
// the experts in order, rows past the counts are 0.
const Op& GroupedMatmulOp();
// Operands: x[m c], dy[m d] (one float dtype), counts[E] i32. Attribute: dtype (string, optional).
// Result: [E c d]: per expert x^T dy over its rows; an expert without rows gets exact zeros.
const Op& GroupedMatmulGradWOp();

struct DispatchResults {
  ValueId rows, counts, order;
};
DispatchResults Dispatch(GraphBuilder& graph, ValueId x, ValueId experts, int64_t expert_count,
                         absl::string_view name = "");
ValueId Combine(GraphBuilder& graph, ValueId rows, ValueId order, ValueId weights,
                absl::string_view name = "");
ValueId GroupedMatmul(GraphBuilder& graph, ValueId x, ValueId w, ValueId counts,
                      bool transpose = false, std::optional<DType> result = std::nullopt,
                      absl::string_view name = "");

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_EXPERTS_H_
