// FactorRule: how an op may be split, as data.
//
// Purpose: names the independent extents ("factors") of an op, as the labels of an einsum do, and
// says for each dim of each operand and result which factors it is made of. Propagation and
// partitioning are written once over these rules; no pass knows any op.
// Thread-safety: plain values. Ownership: owns everything.
//
// The text form lists operands, then results; a dim is a label, a group `(h d)` of labels major to
// minor, or `1` for an extent-1 dim that is broadcast; a value without dims is empty:
//
//   ParseFactorRule("b s c, c (h d) -> b s h d")   // a product with a fused output dim
//   ParseFactorRule("b s c, c -> b s c")           // a bias
//
// Every label that appears in no result is a sum factor, all others are parallel; Set() changes the
// kind of a label. A result without the label of a split factor, whatever its kind, is in each part
// a partial sum; an op where that does not hold says whole for the label. An op that cannot be
// split gives WholeRule().
#ifndef COLOSSUS_TENSOR_OPS_FACTOR_RULE_H_
#define COLOSSUS_TENSOR_OPS_FACTOR_RULE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensor/graph/types.h"

namespace colossus {

enum class FactorKind : uint8_t {
  kParallel,  // parts compute their part of the results, nothing else needed
  kSum,       // parts give partial sums of the results
  kIndexed,   // as parallel, but each part needs its global origin (attribute or operand)
  kExpand,    // splittable with collectives inside: the op's Expand() lowers it
  kWhole,     // must not be split
};
absl::string_view Name(FactorKind kind);

struct Factor {
  std::string label;
  int64_t extent = 0;
  FactorKind kind = FactorKind::kParallel;
};

// Indices into FactorRule::factors, major to minor. Empty: the dim has extent 1 and is broadcast.
// Only the major factor of a dim may be sharded.
using DimFactors = std::vector<int>;
using ValueFactors = std::vector<DimFactors>;  // one entry per dim

struct FactorRule {
  std::vector<Factor> factors;
  std::vector<ValueFactors> operands, results;

  // Index of `label`, or -1.
  int Find(absl::string_view label) const;
  // REQUIRES: `label` exists.
  FactorRule& Set(absl::string_view label, FactorKind kind);
  // Every factor becomes whole: the op runs replicated.
  FactorRule& AllWhole();

  // "b s c, c (h d) -> b s h d".
  std::string ToString() const;

  // Fills the extents from the types and checks that each dim is the product of its factors and
  // that a label has one extent everywhere. For a group with one unknown extent, the extent is
  // derived. Error: InvalidArgument naming value, dim and label.
  absl::Status Bind(absl::Span<const Type> operand_types, absl::Span<const Type> result_types);
};

// Parses the text form; extents stay 0 until Bind(). Error: InvalidArgument with the offending
// part.
absl::StatusOr<FactorRule> ParseFactorRule(absl::string_view text);

// Rules for shapes met often. All are bound.
// Pointwise with right-aligned broadcasting: labels d0, d1, ... of the (single) result.
FactorRule PointwiseRule(absl::Span<const Type> operands, const Type& result);
// No dim of any operand or result may be split.
FactorRule WholeRule(absl::Span<const Type> operands, absl::Span<const Type> results);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_FACTOR_RULE_H_
