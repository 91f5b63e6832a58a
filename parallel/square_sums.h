// SquareSums: the sum of squares of all gradients of an update, over all ranks.
//
// Purpose: adds the nodes that measure gradients, those of a block together, so that what a node
// reads is a block's and is dead or on its way before the next block is measured. Gradients split
// over the same axes have a total of their own, which each block continues, and which is summed
// over those axes once, at the end: bits are those of one node over all, and each element counts
// once.
// Thread-safety: one thread. Ownership: refers to builder and mesh.
//
//   SquareSums squares(builder, mesh);
//   for each block: squares.Add({{axes, gradient}, ...});
//   builder.Output("sum_squares", squares.Total());
#ifndef COLOSSUS_PARALLEL_SQUARE_SUMS_H_
#define COLOSSUS_PARALLEL_SQUARE_SUMS_H_

#include <map>
#include <vector>

#include "collectives/mesh.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/sharding.h"

namespace colossus {

// A rank's part of a finished gradient.
struct MeasuredGradient {
  AxisNames axes;  // that split it, in the mesh's order
  ValueId value = kNoValue;
};

class SquareSums {
 public:
  SquareSums(GraphBuilder& builder, const Mesh& mesh) : builder_(builder), mesh_(mesh) {}

  // In which order the totals of sets of axes are summed up in the end, in place of that of their
  // first gradients.
  void SetOrder(const std::vector<AxisNames>& order);
  // Gradients of these axes go on from a total that was made elsewhere. REQUIRES: in SetOrder.
  void Continue(const AxisNames& axes, ValueId total) { sums_.at(axes) = total; }
  // A node per set of axes.
  void Add(const std::vector<MeasuredGradient>& block);
  // So far, of this rank. REQUIRES: some were added or continued.
  ValueId Of(const AxisNames& axes) const { return sums_.at(axes); }
  // f64[]; 0 if nothing was added.
  ValueId Total();

 private:
  GraphBuilder& builder_;
  const Mesh& mesh_;
  std::vector<AxisNames> order_;  // of sums, by their first gradient
  std::map<AxisNames, ValueId> sums_;
};

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_SQUARE_SUMS_H_
