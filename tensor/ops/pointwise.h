// Pointwise ops: one scalar function applied to every element.
//
// Purpose: all of them in one table in pointwise.cc, a row each (name, operands, flops, gradient);
// the functions stand in tensor/kernels/reference/pointwise.cc. Operands broadcast right-aligned: a
// dim that is missing or of extent 1 repeats. Float operands share one dtype, which is the
// result's; comparisons and logical ops give bool.
// Thread-safety: stateless singletons.
//
//   ValueId y = Mul(b, Gelu(b, gate), up);
//   ValueId kept = Select(b, Less(b, x, limit), x, limit);
//   const Op& op = PointwiseOp("gelu");
#ifndef COLOSSUS_TENSOR_OPS_POINTWISE_H_
#define COLOSSUS_TENSOR_OPS_POINTWISE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/op.h"

namespace colossus {

// Every pointwise op, in table order.
absl::Span<const Op* const> PointwiseOps();
// REQUIRES: the name of a pointwise op.
const Op& PointwiseOp(absl::string_view name);
// Whether the op is in the table: its result element depends on one element of each operand only.
bool IsPointwise(const Op& op);

// The result dims of a right-aligned broadcast. Error: InvalidArgument naming the dims.
absl::StatusOr<Dims> BroadcastDims(absl::Span<const Type> operands);

// Arithmetic: two operands, float (or i32, i64 except for Div).
ValueId Add(GraphBuilder& b, ValueId x, ValueId y);
ValueId Sub(GraphBuilder& b, ValueId x, ValueId y);
ValueId Mul(GraphBuilder& b, ValueId x, ValueId y);
ValueId Div(GraphBuilder& b, ValueId x, ValueId y);
// At equal operands the gradient goes to x.
ValueId Maximum(GraphBuilder& b, ValueId x, ValueId y);
ValueId Minimum(GraphBuilder& b, ValueId x, ValueId y);

// Functions of one float operand.
ValueId Neg(GraphBuilder& b, ValueId x);
ValueId Exp(GraphBuilder& b, ValueId x);
ValueId Log(GraphBuilder& b, ValueId x);
ValueId Sqrt(GraphBuilder& b, ValueId x);
ValueId Rsqrt(GraphBuilder& b, ValueId x);  // 1 / sqrt(x)
ValueId Square(GraphBuilder& b, ValueId x);
ValueId Abs(GraphBuilder& b, ValueId x);  // gradient 0 at 0
ValueId Sin(GraphBuilder& b, ValueId x);
ValueId Cos(GraphBuilder& b, ValueId x);
ValueId Tanh(GraphBuilder& b, ValueId x);
ValueId Sigmoid(GraphBuilder& b, ValueId x);  // 1 / (1 + exp(-x))
ValueId Erf(GraphBuilder& b, ValueId x);
ValueId Relu(GraphBuilder& b, ValueId x);       // gradient 0 at 0
ValueId Gelu(GraphBuilder& b, ValueId x);       // x/2 (1 + erf(x / sqrt 2))
ValueId GeluTanh(GraphBuilder& b, ValueId x);   // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
ValueId QuickGelu(GraphBuilder& b, ValueId x);  // x sigmoid(1.702 x)
ValueId Silu(GraphBuilder& b, ValueId x);       // x sigmoid(x)
ValueId Scale(GraphBuilder& b, ValueId x, double factor);
ValueId AddScalar(GraphBuilder& b, ValueId x, double value);

// Comparisons of two operands of one dtype; bool.
ValueId Equal(GraphBuilder& b, ValueId x, ValueId y);
ValueId Less(GraphBuilder& b, ValueId x, ValueId y);
ValueId LessEqual(GraphBuilder& b, ValueId x, ValueId y);
ValueId Greater(GraphBuilder& b, ValueId x, ValueId y);
ValueId GreaterEqual(GraphBuilder& b, ValueId x, ValueId y);
// Of bool operands.
ValueId LogicalAnd(GraphBuilder& b, ValueId x, ValueId y);
ValueId LogicalOr(GraphBuilder& b, ValueId x, ValueId y);
ValueId LogicalNot(GraphBuilder& b, ValueId x);

// x where `condition` (bool) holds, else y; x and y of one dtype.
ValueId Select(GraphBuilder& b, ValueId condition, ValueId x, ValueId y);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_POINTWISE_H_
