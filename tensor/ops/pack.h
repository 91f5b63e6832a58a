// pack and unpack: several tensors in one flat buffer, and back.
//
// Purpose: parameters, gradients and optimizer states of a chunk (gemini/chunk.h) as one value, so
// that one collective or one update serves them all; and each of them as a value with dims of its
// own. In a Program unpack costs nothing where all its results are at multiples of 64 bytes (they
// are views), and pack nothing for operands that are made where they are wanted. Each is the
// other's gradient.
// Thread-safety: stateless singletons.
//
//   ValueIds w = Unpack(b, chunk, {{0, {4, 8}}, {64, {16}}});   // f32[4,8] and f32[16]
//   ValueId flat = Pack(b, w, {0, 64}, 1024);                    // zeros everywhere else
#ifndef COLOSSUS_TENSOR_OPS_PACK_H_
#define COLOSSUS_TENSOR_OPS_PACK_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/types.h"
#include "tensor/ops/op.h"

namespace colossus {

// The most tensors that one node packs or unpacks.
inline constexpr int kMaxPacked = 256;

// unpack. Operand: x[n]. Attributes (ints): offsets, the first element of each result, ascending;
// ranks, the number of dims of each; dims, all their dims one after another. Results: ranges of x
// under these dims; they do not overlap.
const Op& UnpackOp();
// pack. Operands: one or more values of one dtype and any dims. Attributes: offsets (ints), the
// place of each operand's first element, ascending; elements (int). Result: y[elements], the
// operands at their places and zeros between, before and behind them. Operands do not overlap.
const Op& PackOp();

struct PackedTensor {
  int64_t offset = 0;
  Dims dims;
};
// One value per tensor, also after an error.
ValueIds Unpack(GraphBuilder& graph, ValueId x, absl::Span<const PackedTensor> tensors,
                absl::string_view name = "");
ValueId Pack(GraphBuilder& graph, ValueIds tensors, std::vector<int64_t> offsets, int64_t elements,
             absl::string_view name = "");

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_PACK_H_
