// StatePiece: a part of a state in global coordinates, whatever layout it was made by.
//
// Purpose: what a rank holds of a state is a box of the whole tensor (its slice of a mesh) and, if
// the box is split further by elements (the shards of ZeRO), a range of the box's elements in
// row-major order. Pieces of two layouts meet in stretches of elements that are contiguous in both:
// that is all that saving, loading and resharding need to know.
// Thread-safety: plain values and functions. Ownership: none.
//
//   StatePiece saved = {{0, 4}, {10, 4}, 8, 16};   // columns 4..7 of [10, 8]; 16 of the 40
//   elements ForEachRun(wanted, saved, [&](int64_t to, int64_t from, int64_t count) {
//     std::copy_n(source + from, count, destination + to);
//   });
#ifndef COLOSSUS_TENSOR_GRAPH_STATE_PIECE_H_
#define COLOSSUS_TENSOR_GRAPH_STATE_PIECE_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tensor/graph/sharding.h"
#include "tensor/graph/types.h"

namespace colossus {

struct StatePiece {
  Dims origin, extent;  // the box
  int64_t first = 0;    // of its elements
  int64_t count = 0;

  friend bool operator==(const StatePiece&, const StatePiece&) = default;
};

StatePiece WholePiece(const Dims& global);
StatePiece BoxPiece(const Slice& slice);
// Elements [at, at + count) of `piece`. REQUIRES: inside it.
StatePiece PartOf(const StatePiece& piece, int64_t at, int64_t count);
// Whether the piece is all elements of its box.
bool IsBox(const StatePiece& piece);
// "[0,4]+[10,4]", with "{8,16}" behind it for a range.
std::string ToString(const StatePiece& piece);

// Elements of a tensor of these dims; none: a negative dim, or more than 2^60 elements. For dims
// that a file claims.
bool CountElements(absl::Span<const int64_t> dims, int64_t* elements);

// InvalidArgument: the piece is not inside a tensor of these dims. Any numbers are fine.
absl::Status CheckPiece(const StatePiece& piece, const Dims& global);

// The elements of `piece` that are inside a tensor of these dims, as a piece. The piece itself may
// reach beyond them, as the parts of a padded tensor do.
StatePiece InsideOf(const StatePiece& piece, const Dims& global);

// Whether the pieces together hold every element exactly once. Boxes must be equal or disjoint, as
// those of one layout are. REQUIRES: CheckPiece of each is ok. Error: InvalidArgument.
absl::Status CheckCover(absl::Span<const StatePiece> pieces, const Dims& global);

// Calls run(at_a, at_b, count) for each stretch of elements that both pieces have and that is
// contiguous in both: elements [at_a, at_a + count) of a are elements [at_b, ...) of b. Ascending
// in a and in b. REQUIRES: pieces of one tensor.
void ForEachRun(const StatePiece& a, const StatePiece& b,
                absl::FunctionRef<void(int64_t at_a, int64_t at_b, int64_t count)> run);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_GRAPH_STATE_PIECE_H_
