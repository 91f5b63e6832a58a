// sum_squares: the sum of squares of all elements of all operands, for the global gradient norm.
//
// Purpose: bits that depend on neither threads nor on how a flat buffer is cut at multiples of
// kSumSquaresBlock elements. Rule: each operand is cut into blocks of 1024 elements, the last one
// shorter; in a block 16 double sums, lane i taking elements i, i + 16, ... in order, added in lane
// order from 0; the blocks are added in order to one total, operands in order. The total starts
// from 0 or, with `continues`, from an earlier one: so values that are measured one after the
// other, each where it is at hand, give the bits of one node over all of them. Thread-safety: a
// stateless singleton.
//
//   ValueId squares = SumSquares(b, {dw, db});         // f64[]
//   squares = SumSquares(b, {dv}, squares);            // as SumSquares(b, {dw, db, dv})
#ifndef COLOSSUS_TENSOR_OPS_SUM_SQUARES_H_
#define COLOSSUS_TENSOR_OPS_SUM_SQUARES_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "tensor/graph/attributes.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/op.h"

namespace colossus {

inline constexpr int64_t kSumSquaresBlock = 1024;  // elements
inline constexpr int64_t kSumSquaresLanes = 16;

// Operands: one or more float values of any dims and dtypes; before them, with the attribute
// continues = true, the total so far, f64[]. Result: f64[].
const Op& SumSquaresOp();

// `total`: so far; kNoValue: none.
ValueId SumSquares(GraphBuilder& graph, ValueIds values, ValueId total = kNoValue,
                   absl::string_view name = "");

// Whether operand 0 is the total so far.
bool ContinuesTotal(const Attributes& attributes);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_SUM_SQUARES_H_
