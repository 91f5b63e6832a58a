// rotary: rotary position embedding of queries or keys.
//
//   angle = position * inverse_frequency
//   y1 = x1 * cos - x2 * sin,  y2 = x2 * cos + x1 * sin,  cos and sin times `scale`
//
// Purpose: rotates the first r entries of each head (r = 2 * the number of inverse frequencies) in
// pairs (i, i + r/2), or (2i, 2i + 1) if interleaved; entries from r on pass unchanged. Angle, cos
// and sin are f32 values, f64 ones for f64 operands. The gradient is the inverse rotation.
// Thread-safety: a stateless singleton.
//
//   ValueId q = Rotary(b, q, positions, inverse_frequencies);
#ifndef COLOSSUS_TENSOR_OPS_ROTARY_H_
#define COLOSSUS_TENSOR_OPS_ROTARY_H_

#include "absl/strings/string_view.h"
#include "tensor/graph/builder.h"
#include "tensor/ops/op.h"

namespace colossus {

// Operands: x[b s h d], positions[b s] i32, inverse_frequencies[r/2] f32, r <= d. Attributes:
// interleaved (bool, false), scale (float, 1), inverse (bool, false: turns the sign of sin).
const Op& RotaryOp();

ValueId Rotary(GraphBuilder& graph, ValueId x, ValueId positions, ValueId inverse_frequencies,
               bool interleaved = false, double scale = 1, absl::string_view name = "");

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_ROTARY_H_
