// ShardedCall: what Op::Expand sees and gives when a node is split with collectives inside.
//
// Purpose: the partitioner knows factors, not ops. Where a node's split needs collectives (a factor
// of kind kExpand that has axes, or a panel product, panel_product.h) it hands the whole decision
// over: the global call, this rank's operands with their shardings, the axes of every factor. The
// lowering adds local nodes and collectives to the rank's graph and hands back local results with
// their shardings.
//
// Operands arrive sharded as their factors are: a dim's axes are those of its factors, major to
// minor. An axis stands once in a value: where two factors of one value have the same axis (queries
// and keys of ring attention, in a bias [h s t]), it stays with the one that is not kExpand and the
// other's dim is whole. In a panel product operands arrive as they lie.
// Thread-safety: none; one thread. Ownership: refers to op and mesh, owns the rest.
//
//   ShardedCall call({.op = &op, .attributes = ..., .operand_types = ..., .rule = ...,
//                     .factor_axes = ..., .x = ..., .x_shardings = ..., .mesh = &mesh,
//                     .rank = rank});
//   RETURN_IF_ERROR(op.Expand(call, graph));
//   Use(call.y(0), call.y_sharding(0));
#ifndef COLOSSUS_TENSOR_OPS_SHARDED_CALL_H_
#define COLOSSUS_TENSOR_OPS_SHARDED_CALL_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/mesh.h"
#include "tensor/graph/attributes.h"
#include "tensor/graph/sharding.h"
#include "tensor/graph/types.h"
#include "tensor/ops/factor_rule.h"
#include "tensor/ops/op.h"

namespace colossus {

class ShardedCall {
 public:
  struct Spec {
    const Op* op = nullptr;
    Attributes attributes;               // of the whole op
    Types operand_types;                 // of the whole op
    FactorRule rule;                     // Factors() of the whole op: bound
    std::vector<AxisNames> factor_axes;  // one entry per factor of the rule
    ValueIds x;                          // this rank's operands
    std::vector<Sharding> x_shardings;   // one per operand; none is partial
    // Wanted, one per result, or empty. A lowering that has a choice follows it.
    std::vector<Sharding> wanted;
    const Mesh* mesh = nullptr;
    int rank = 0;
  };
  explicit ShardedCall(Spec spec);

  const Op& op() const { return *spec_.op; }
  const Attributes& attributes() const { return spec_.attributes; }
  OpCall global() const { return {spec_.operand_types, spec_.attributes}; }
  const FactorRule& rule() const { return spec_.rule; }
  const Mesh& mesh() const { return *spec_.mesh; }
  int rank() const { return spec_.rank; }

  int x_count() const { return static_cast<int>(spec_.x.size()); }
  ValueId x(int i) const { return spec_.x[i]; }
  const Sharding& x_sharding(int i) const { return spec_.x_shardings[i]; }
  const ValueIds& operands() const { return spec_.x; }
  const std::vector<Sharding>& wanted() const { return spec_.wanted; }

  // REQUIRES of all: the rule has the label.
  const AxisNames& axes(absl::string_view label) const;
  int64_t parts(absl::string_view label) const { return mesh().SizeOf(axes(label)); }
  // This rank's number among the parts.
  int64_t index(absl::string_view label) const { return mesh().IndexIn(rank(), axes(label)); }
  // This rank's range of the factor.
  FactorPart part(absl::string_view label) const;

  // Localize() of the op for this rank's part, with the factors of `whole` not split: what a local
  // node of the same op starts from.
  absl::StatusOr<Attributes> LocalAttributes(absl::Span<const absl::string_view> whole) const;
  // A sharding by factors, with the factors of `whole` not split: of operand or result dims.
  Sharding ByFactors(const ValueFactors& dims, absl::Span<const absl::string_view> whole) const;
  // The axes of all split factors that `dims` lacks: over which a part's result is partial. Axes of
  // `whole` do not count. In the mesh's order.
  AxisNames PartialAxes(const ValueFactors& dims, absl::Span<const absl::string_view> whole) const;
  // ByFactors and PartialAxes of result i, the sharding of what a local node gives.
  Sharding LocalResult(int i, absl::Span<const absl::string_view> whole) const;

  // Hands over result i.
  void Set(int i, ValueId local, Sharding sharding);
  int y_count() const { return static_cast<int>(y_.size()); }
  // kNoValue until set.
  ValueId y(int i) const { return y_[i]; }
  const Sharding& y_sharding(int i) const { return y_shardings_[i]; }

 private:
  bool IsWhole(int factor, absl::Span<const absl::string_view> whole) const;

  Spec spec_;
  ValueIds y_;
  std::vector<Sharding> y_shardings_;
};

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_SHARDED_CALL_H_
