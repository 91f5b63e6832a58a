// Panel products: matrices that are split in both dims over the same two axes.
//
//   y[m n] = x[m k] w[k n]   with m over row, n over column, and k over column in x, row in w
//   dx[m k] = dy[m n] w[k n]    dw[k n] = x[m k] dy[m n]
//
// Purpose: no assignment of axes to labels describes these: label k lies differently in two of the
// three values. The product goes panel by panel of k: a slice of each rank's k is gathered where an
// operand has k, multiplied, and the results are added up; or, where the result has k, added over
// the ranks and scattered. A rank never holds more than two panels of an operand, so never a full
// row of w. With axes of q ranks each, in elements a rank sends: forward (q-1)/q (mk + kn)/q,
// either gradient as much.
//   FindPanelProduct tells the partitioner that a product is one, by how its operands lie and its
// result is wanted; MatmulOp's Expand lowers it.
// Thread-safety: pure functions. Ownership: none.
//
//   std::optional<PanelProduct> panel = FindPanelProduct(rule, {x, w}, wanted, mesh);
//   if (panel) result = panel->result;
#ifndef COLOSSUS_TENSOR_OPS_PANEL_PRODUCT_H_
#define COLOSSUS_TENSOR_OPS_PANEL_PRODUCT_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "collectives/mesh.h"
#include "tensor/graph/builder.h"
#include "tensor/graph/sharding.h"
#include "tensor/ops/factor_rule.h"
#include "tensor/ops/sharded_call.h"

namespace colossus {

struct PanelProduct {
  int factor = -1;        // of the rule: the label that goes in panels
  AxisNames operands[2];  // its axes in operands 0 and 1; empty where the value lacks it
  AxisNames result;       // its axes in the result; empty where the result lacks it
  Sharding y;             // how the result comes out
};

// `rule`: of a matmul, bound. `wanted`: the result's, or nullopt: then a label that the result has
// gets the axes over which it is summed. nullopt: an ordinary product, which one assignment of axes
// to labels describes or conversions must make so; or axes of unequal sizes.
std::optional<PanelProduct> FindPanelProduct(const FactorRule& rule,
                                             absl::Span<const Sharding> operands,
                                             const std::optional<Sharding>& wanted,
                                             const Mesh& mesh);

// MatmulOp's Expand. Error: InvalidArgument for operands that make no panel product.
absl::Status ExpandMatmul(ShardedCall& call, GraphBuilder& graph);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_PANEL_PRODUCT_H_
