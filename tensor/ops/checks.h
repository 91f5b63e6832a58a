// Checks and rules that many ops share.
//
// Purpose: an op's Infer reads as its list of constraints, one line each.
// Thread-safety: pure functions. Ownership: none.
//
//   RETURN_IF_ERROR(CheckAttributeTypes(call, "x_c3", {{"eps", AttributeKind::kFloat, true}}));
//   if (call.operands.size() != 2) return Refuse("x_c1", "needs two operands");
#ifndef COLOSSUS_TENSOR_OPS_CHECKS_H_
#define COLOSSUS_TENSOR_OPS_CHECKS_H_

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensor/graph/attributes.h"
#include "tensor/graph/types.h"
#include "tensor/ops/factor_rule.h"
#include "tensor/ops/op.h"

namespace colossus {

// InvalidArgument "constraint: what".
absl::Status Refuse(absl::string_view constraint, absl::string_view what);

enum class AttributeKind : uint8_t { kBool, kInt, kFloat, kString, kInts, kFloats, kStrings };

struct AttributeRule {
  absl::string_view name;
  AttributeKind kind;
  bool required = false;
};

// Error: an attribute without a rule, one of another kind, or a required one that is missing.
absl::Status CheckAttributeTypes(const OpCall& call, absl::string_view constraint,
                                 std::initializer_list<AttributeRule> rules);

// Optional operands (OptionalOperand in op.h). Error: "with" is no string list, names a role that
// is not in `roles` or not in their order, or does not agree with the number of operands.
absl::Status CheckRoles(const OpCall& call, absl::string_view constraint, int fixed,
                        std::initializer_list<absl::string_view> roles);

// Error unless operand `i` has exactly this type; `what` names it in the message.
absl::Status CheckOperand(const OpCall& call, absl::string_view constraint, int i,
                          absl::string_view what, const Type& type);

// The float type that attribute `name` names, or `otherwise` when it is absent. Error: it is
// something else.
absl::StatusOr<DType> FloatAttribute(const OpCall& call, absl::string_view constraint,
                                     absl::string_view name, DType otherwise);

// Element type of statistics, sums and weight gradients beside values of type `dtype`: f64 for
// f64, else f32.
DType StatisticsDType(DType dtype);

// Product of all extents but the last; 1 for one dim. REQUIRES: at least one dim.
int64_t LeadingElements(absl::Span<const int64_t> dims);

// "d0 d1 d2": labels of `count` leading dims.
std::string LeadingLabels(int count);

// Parses and binds. REQUIRES: both succeed.
FactorRule BoundRule(absl::string_view text, absl::Span<const Type> operands,
                     absl::Span<const Type> results);

// Sets `origin` and `global`, an entry per dim of `whole` whose factors are `dims`, for a part. An
// op that is a part already stays where it is in its own whole.
void SetPart(const FactorRule& rule, const ValueFactors& dims, const Dims& whole,
             absl::Span<const FactorPart> parts, Attributes& attributes);

// For helper functions: appends `value` to `operands` and `role` to `with` unless it is kNoValue.
void AddOptionalOperand(absl::string_view role, ValueId value, ValueIds& operands, Strings& with);

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_CHECKS_H_
