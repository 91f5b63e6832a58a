// Op: everything the compiler knows about one operation.
//
// Purpose: one class per operation says what it means to the compiler: shape and dtype rule,
// gradient, factors, cost, what may alias. What it computes is said by its reference kernel
// (tensor/kernels/reference), the judge of every faster one. docs/ops.md lists each op's
// constraints by number; Infer's messages cite them ("matmul_c2: ...").
// Thread-safety: ops are stateless singletons, listed in op_list.cc; all methods are const.
// Ownership: never deleted; a node holds a plain pointer.
//
// Adding an op: docs/add_an_op.md (six places).
#ifndef COLOSSUS_TENSOR_OPS_OP_H_
#define COLOSSUS_TENSOR_OPS_OP_H_

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensor/graph/attributes.h"
#include "tensor/graph/types.h"
#include "tensor/ops/factor_rule.h"

namespace colossus {

class GradientBuilder;
class GraphBuilder;
class ShardedCall;

// One use of an op, as far as types tell. Views; valid during the call only.
struct OpCall {
  absl::Span<const Type> operands;
  const Attributes& attributes;
};

// What an ideal kernel does: floating-point operations (a multiply-add counts two) and bytes read
// plus written once each.
struct Cost {
  double flops = 0;
  double bytes = 0;
};

// (result, operand) pairs that may share memory: the kernel may write that result over that
// operand when the operand is not needed afterwards.
using Aliases = std::vector<std::pair<int, int>>;

// The range of one factor that one part of a split op computes, in global elements of the factor.
struct FactorPart {
  int64_t origin = 0, extent = 0;
};

// The range of a dim made of `factors` in such a part. REQUIRES: only its major factor is split.
FactorPart PartOfDim(const FactorRule& rule, const DimFactors& factors,
                     absl::Span<const FactorPart> parts);

class Op {
 public:
  virtual ~Op() = default;

  // Unique, lower case with underscores; the word in graph text.
  virtual absl::string_view name() const = 0;

  // Shape and dtype rule. Checks operands and attributes completely: whatever it accepts, the
  // reference kernel computes. Error: InvalidArgument citing the constraint.
  virtual absl::StatusOr<Types> Infer(const OpCall& call) const = 0;

  // Adds graph nodes that compute the cotangents of the operands. Default: refuses, naming the op.
  virtual absl::Status Gradient(GradientBuilder& gradient) const;

  // REQUIRES: Infer accepts the call. The rule is bound.
  virtual FactorRule Factors(const OpCall& call) const = 0;

  // The attributes of one part of a split op: extents in attributes become those of the part, and
  // the origin of an indexed factor is filled in. `call`: the whole op; `parts`: one per factor of
  // Factors(call), in its order. Default: the same attributes. Error: this split needs what
  // attributes cannot say.
  virtual absl::StatusOr<Attributes> Localize(const OpCall& call,
                                              absl::Span<const FactorPart> parts) const;

  // Lowers a split over factors of kind kExpand to local ops and collectives. Default: refuses.
  virtual absl::Status Expand(ShardedCall& call, GraphBuilder& graph) const;

  // REQUIRES: Infer accepts the call.
  virtual Cost CostOf(const OpCall& call) const = 0;

  // Default: nothing may alias.
  virtual Aliases MayAlias(const OpCall& call) const;

  // True: each result is a range of operand 0's bytes under another type (a reshape). No kernel
  // runs in a Program; results share the operand's memory. Default: false.
  virtual bool IsView(const OpCall& call) const;
  // Of a view, per result: its first element in operand 0. Default: {0}.
  virtual std::vector<int64_t> ViewOffsets(const OpCall& call) const;

  // Per operand: the element of result 0 from which on the operand's elements stand in the result
  // as they are. A plan may have the operand made there at once; the kernel must then leave it, and
  // complete the result around it. Default: empty, nothing may be made in place.
  virtual std::vector<int64_t> OperandPlaces(const OpCall& call) const;

 protected:
  // Bytes of all operands and results, the second half of most costs. REQUIRES: Infer accepts.
  double BytesOf(const OpCall& call) const;
};

// Optional operands. Ops with optional operands name those present, in order, in the string list
// attribute "with" (`{with=["q_segments", "k_segments"]}`); they follow the `fixed` first ones.
// Returns the operand's index, or -1 when absent.
int OptionalOperand(const Attributes& attributes, int fixed, absl::string_view role);

// Attributes have no meaning by accident. Error: InvalidArgument `constraint: unknown attribute`
// for the first attribute of the call that is not in `allowed`. "with" must be allowed by name.
absl::Status CheckAttributes(const OpCall& call, absl::string_view constraint,
                             std::initializer_list<absl::string_view> allowed);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_OP_H_
