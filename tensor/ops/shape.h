// Shape ops: the same elements elsewhere.
//
// Purpose: reshape, transpose, slice, pad, concat and broadcast, for any element type; bits are
// kept. Reshape says by labels which dims it splits or merges, so that sharding passes through it.
// Thread-safety: stateless singletons.
//
//   ValueId heads = Reshape(b, x, "b s (h d) -> b s h d", {2, 16, 4, 8});
//   ValueId swapped = Transpose(b, heads, {0, 2, 1, 3});
//   ValueId first = Slice(b, x, {0, 0, 0}, {2, 8, 32});
#ifndef COLOSSUS_TENSOR_OPS_SHAPE_H_
#define COLOSSUS_TENSOR_OPS_SHAPE_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensor/graph/attributes.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/op.h"

namespace colossus {

const Op& ReshapeOp();
const Op& TransposeOp();
const Op& SliceOp();
const Op& PadOp();
const Op& ConcatOp();
const Op& BroadcastOp();

// `spec`: a factor rule with one operand and one result that have the same labels in the same
// order; `1` stands for a dim of extent 1. `dims`: of the result. x itself if it has them already.
ValueId Reshape(GraphBuilder& b, ValueId x, absl::string_view spec, const Dims& dims);
// Dim i of the result is dim perm[i] of x.
ValueId Transpose(GraphBuilder& b, ValueId x, Ints perm);
// Elements with starts[d] <= index < limits[d].
ValueId Slice(GraphBuilder& b, ValueId x, Ints starts, Ints limits);
// `low` elements of `value` before and `high` after, per dim; none is negative.
ValueId Pad(GraphBuilder& b, ValueId x, Ints low, Ints high, double value = 0);
// REQUIRES: at least one value; all dims but `dim` agree.
ValueId Concat(GraphBuilder& b, absl::Span<const ValueId> values, int dim);
// Repeats x along missing dims and dims of extent 1 (right-aligned). x itself if it has `dims`.
ValueId Broadcast(GraphBuilder& b, ValueId x, const Dims& dims);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_SHAPE_H_
