// dropout: zeroes entries at random and scales the rest, the same for every layout.
//
//   y = x / (1 - rate) where UniformFloat((seed, update), SiteId(site), element) >= rate, else 0
//
// Purpose: the element is the row-major index in `global` dims of (first_row + origin[0] + i0,
// origin[1] + i1, ...): the place in the global batch, so the mask depends on neither ranks, split
// nor micro-batches. The gradient is the same op on dy.
// Thread-safety: a stateless singleton.
//
//   ValueId y = Dropout(b, x, key, first_row, 0.1, "h.3.mlp");
#ifndef COLOSSUS_TENSOR_OPS_DROPOUT_H_
#define COLOSSUS_TENSOR_OPS_DROPOUT_H_

#include "absl/strings/string_view.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/op.h"

namespace colossus {

// Operands: x (float, at least one dim), key i64[2] = (seed, update), first_row i64[]: global index
// of row 0; with positions i32[d0 d1], which stand for the second index where the positions of a
// row lie in another order, or reach beyond its end (where masks are of no account). Attributes:
// rate (float in [0, 1)), site (string), origin and global (ints over x's dims, where x is a part:
// default 0 and x's dims). Result: as x.
const Op& DropoutOp();

// `positions`: kNoValue for none. `row_length`: how many positions a row has, where some of x's are
// padding behind them; 0: as x. With it `positions` must be there.
ValueId Dropout(GraphBuilder& graph, ValueId x, ValueId key, ValueId first_row, double rate,
                absl::string_view site, absl::string_view name = "", ValueId positions = kNoValue,
                int64_t row_length = 0);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_DROPOUT_H_
