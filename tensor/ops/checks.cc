#include "tensor/ops/checks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace colossus {
namespace {

bool HasKind(const Attributes& attributes, absl::string_view name, AttributeKind kind) {
  switch (kind) {
    case AttributeKind::kBool: return attributes.HasType<bool>(name);
    case AttributeKind::kInt: return attributes.HasType<int64_t>(name);
    case AttributeKind::kFloat: return attributes.HasType<double>(name);
    case AttributeKind::kString: return attributes.HasType<std::string>(name);
    case AttributeKind::kInts: return attributes.HasType<Ints>(name);
    case AttributeKind::kFloats: return attributes.HasType<Floats>(name);
    case AttributeKind::kStrings: return attributes.HasType<Strings>(name);
  }
  return false;
}

absl::string_view KindName(AttributeKind kind) {
  switch (kind) {
    case AttributeKind::kBool: return "a bool";
    case AttributeKind::kInt: return "an integer";
    case AttributeKind::kFloat: return "a float";
    case AttributeKind::kString: return "a string";
    case AttributeKind::kInts: return "a list of integers";
    case AttributeKind::kFloats: return "a list of floats";
    case AttributeKind::kStrings: return "a list of strings";
  }
  return "";
}

}  // namespace

absl::Status Refuse(absl::string_view constraint, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(constraint, ": ", what));
}

absl::Status CheckAttributeTypes(const OpCall& call, absl::string_view constraint,
                                 std::initializer_list<AttributeRule> rules) {
  for (const auto& item : call.attributes.values()) {
    auto same_name = [&](const AttributeRule& rule) { return rule.name == item.first; };
    if (std::none_of(rules.begin(), rules.end(), same_name)) {
      return Refuse(constraint, absl::StrCat("unknown attribute '", item.first, "'"));
    }
  }
  for (const AttributeRule& rule : rules) {
    if (!call.attributes.Has(rule.name)) {
      if (!rule.required) continue;
      return Refuse(constraint, absl::StrCat("attribute '", rule.name, "' is missing"));
    }
    if (!HasKind(call.attributes, rule.name, rule.kind)) {
      return Refuse(constraint,
                    absl::StrCat("attribute '", rule.name, "' must be ", KindName(rule.kind)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRoles(const OpCall& call, absl::string_view constraint, int fixed,
                        std::initializer_list<absl::string_view> roles) {
  size_t present = 0;
  if (call.attributes.Has("with")) {
    if (!call.attributes.HasType<Strings>("with")) {
      return Refuse(constraint, "attribute 'with' must be a list of strings");
    }
    auto next = roles.begin();
    for (const std::string& role : call.attributes.StringList("with")) {
      auto same_role = [&](absl::string_view known) { return known == role; };
      next = std::find_if(next, roles.end(), same_role);
      if (next == roles.end()) {
        return Refuse(constraint, absl::StrCat("optional operand '", role,
                                               "' is unknown, given twice or out of order"));
      }
      ++next;
      ++present;
    }
  }
  size_t wanted = static_cast<size_t>(fixed) + present;
  if (call.operands.size() == wanted) return absl::OkStatus();
  return Refuse(constraint, absl::StrCat("needs ", wanted, " operands (", present,
                                         " optional), given ", call.operands.size()));
}

absl::Status CheckOperand(const OpCall& call, absl::string_view constraint, int i,
                          absl::string_view what, const Type& type) {
  if (call.operands[i] == type) return absl::OkStatus();
  return Refuse(constraint, absl::StrCat(what, " must be ", ToString(type), ", is ",
                                         ToString(call.operands[i])));
}

absl::StatusOr<DType> FloatAttribute(const OpCall& call, absl::string_view constraint,
                                     absl::string_view name, DType otherwise) {
  if (!call.attributes.Has(name)) return otherwise;
  if (call.attributes.HasType<std::string>(name)) {
    absl::StatusOr<DType> dtype = ParseDType(call.attributes.String(name));
    if (dtype.ok() && IsFloat(*dtype)) return dtype;
  }
  return Refuse(constraint, absl::StrCat("attribute '", name, "' must name a float type"));
}

DType StatisticsDType(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

int64_t LeadingElements(absl::Span<const int64_t> dims) {
  CHECK(!dims.empty());
  return ElementCount(dims.subspan(0, dims.size() - 1));
}

std::string LeadingLabels(int count) {
  std::string labels;
  for (int d = 0; d < count; ++d) absl::StrAppend(&labels, d == 0 ? "" : " ", "d", d);
  return labels;
}

FactorRule BoundRule(absl::string_view text, absl::Span<const Type> operands,
                     absl::Span<const Type> results) {
  absl::StatusOr<FactorRule> rule = ParseFactorRule(text);
  CHECK_OK(rule.status());
  CHECK_OK(rule->Bind(operands, results));
  return *std::move(rule);
}

void SetPart(const FactorRule& rule, const ValueFactors& dims, const Dims& whole,
             absl::Span<const FactorPart> parts, Attributes& attributes) {
  Ints origin(whole.size(), 0), global(whole.begin(), whole.end());
  if (attributes.Has("origin")) origin = attributes.IntList("origin");
  if (attributes.Has("global")) global = attributes.IntList("global");
  for (size_t d = 0; d < dims.size(); ++d) origin[d] += PartOfDim(rule, dims[d], parts).origin;
  attributes.Set("origin", std::move(origin));
  attributes.Set("global", std::move(global));
}

void AddOptionalOperand(absl::string_view role, ValueId value, ValueIds& operands, Strings& with) {
  if (value == kNoValue) return;
  operands.push_back(value);
  with.push_back(std::string(role));
}

}  // namespace colossus
