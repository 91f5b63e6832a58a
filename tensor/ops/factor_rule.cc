#include "tensor/ops/factor_rule.h"

#include <cctype>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/status.h"

namespace colossus {
namespace {

int FindOrAdd(FactorRule& rule, const std::string& label) {
  int index = rule.Find(label);
  if (index >= 0) return index;
  rule.factors.push_back({label, 0, FactorKind::kSum});
  return static_cast<int>(rule.factors.size()) - 1;
}

bool IsLabel(absl::string_view word) {
  if (word.empty() || !std::isalpha(static_cast<unsigned char>(word[0]))) return false;
  for (char c : word) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  }
  return true;
}

// One value: words separated by spaces, groups in parentheses.
absl::StatusOr<ValueFactors> ParseValue(FactorRule& rule, absl::string_view text) {
  ValueFactors dims;
  std::string spaced;
  for (char c : text) {
    if (c == '(' || c == ')') absl::StrAppend(&spaced, " ", std::string(1, c), " ");
    else spaced.push_back(c);
  }
  bool in_group = false;
  for (absl::string_view word : absl::StrSplit(spaced, ' ', absl::SkipEmpty())) {
    if (word == "(") {
      if (in_group) return absl::InvalidArgumentError("nested group in factor rule");
      in_group = true;
      dims.emplace_back();
    } else if (word == ")") {
      if (!in_group) return absl::InvalidArgumentError("unmatched ')' in factor rule");
      in_group = false;
    } else if (word == "1" && !in_group) {
      dims.emplace_back();
    } else if (IsLabel(word)) {
      if (!in_group) dims.emplace_back();
      dims.back().push_back(FindOrAdd(rule, std::string(word)));
    } else {
      return absl::InvalidArgumentError(absl::StrCat("bad label '", word, "' in factor rule"));
    }
  }
  if (in_group) return absl::InvalidArgumentError("unclosed '(' in factor rule");
  return dims;
}

absl::Status ParseSide(FactorRule& rule, absl::string_view text,
                       std::vector<ValueFactors>& values) {
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    ASSIGN_OR_RETURN(ValueFactors dims, ParseValue(rule, part));
    values.push_back(std::move(dims));
  }
  return absl::OkStatus();
}

std::string PrintValue(const FactorRule& rule, const ValueFactors& dims) {
  return absl::StrJoin(dims, " ", [&](std::string* out, const DimFactors& dim) {
    std::string labels = absl::StrJoin(dim, " ", [&](std::string* label_out, int f) {
      label_out->append(rule.factors[f].label);
    });
    if (dim.empty()) out->append("1");
    else if (dim.size() == 1) out->append(labels);
    else absl::StrAppend(out, "(", labels, ")");
  });
}

// Sets extents that follow from dim `extent`; `changed` tells whether something new was learnt.
absl::Status BindDim(FactorRule& rule, const DimFactors& dim, int64_t extent, bool& changed) {
  int unknown = -1;
  int64_t known = 1;
  for (int f : dim) {
    if (rule.factors[f].extent > 0) {
      known *= rule.factors[f].extent;
    } else if (unknown >= 0) {
      return absl::OkStatus();  // two unknowns: wait until another value tells one
    } else {
      unknown = f;
    }
  }
  if (unknown >= 0) {
    if (known == 0 || extent % known != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "extent ", extent, " is not a multiple of ", known, " (label '",
          rule.factors[unknown].label, "')"));
    }
    rule.factors[unknown].extent = extent / known;
    changed = changed || extent > 0;
    return absl::OkStatus();
  }
  if (known != extent) {
    return absl::InvalidArgumentError(absl::StrCat(
        "extent ", extent, " does not agree with ", known, " of (",
        absl::StrJoin(dim, " ", [&](std::string* out, int f) {
          absl::StrAppend(out, rule.factors[f].label, "=", rule.factors[f].extent);
        }), ")"));
  }
  return absl::OkStatus();
}

absl::Status BindSide(FactorRule& rule, const std::vector<ValueFactors>& values,
                      absl::Span<const Type> types, absl::string_view side, bool& changed) {
  if (values.size() != types.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "factor rule '", rule.ToString(), "' has ", values.size(), " ", side, "s, given ",
        types.size()));
  }
  for (size_t v = 0; v < values.size(); ++v) {
    if (values[v].size() != types[v].dims.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          side, " ", v, " of type ", ToString(types[v]), " does not have the ", values[v].size(),
          " dims of '", rule.ToString(), "'"));
    }
    for (size_t d = 0; d < values[v].size(); ++d) {
      const absl::Status bound = BindDim(rule, values[v][d], types[v].dims[d], changed);
      if (bound.ok()) continue;
      return Annotate(bound, absl::StrCat(side, " ", v, " dim ", d, " of '", rule.ToString(), "'"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view Name(FactorKind kind) {
  switch (kind) {
    case FactorKind::kParallel: return "parallel";
    case FactorKind::kSum: return "sum";
    case FactorKind::kIndexed: return "indexed";
    case FactorKind::kExpand: return "expand";
    case FactorKind::kWhole: return "whole";
  }
  CHECK(false) << "unknown factor kind";
  return "";
}

int FactorRule::Find(absl::string_view label) const {
  for (size_t i = 0; i < factors.size(); ++i) {
    if (factors[i].label == label) return static_cast<int>(i);
  }
  return -1;
}

FactorRule& FactorRule::Set(absl::string_view label, FactorKind kind) {
  int index = Find(label);
  CHECK(index >= 0) << "no factor '" << label << "' in " << ToString();
  factors[index].kind = kind;
  return *this;
}

FactorRule& FactorRule::AllWhole() {
  for (Factor& factor : factors) factor.kind = FactorKind::kWhole;
  return *this;
}

std::string FactorRule::ToString() const {
  auto side = [&](const std::vector<ValueFactors>& values) {
    return absl::StrJoin(values, ", ", [&](std::string* out, const ValueFactors& dims) {
      out->append(PrintValue(*this, dims));
    });
  };
  return absl::StrCat(side(operands), " -> ", side(results));
}

absl::Status FactorRule::Bind(absl::Span<const Type> operand_types,
                              absl::Span<const Type> result_types) {
  for (bool changed = true; changed;) {
    changed = false;
    RETURN_IF_ERROR(BindSide(*this, operands, operand_types, "operand", changed));
    RETURN_IF_ERROR(BindSide(*this, results, result_types, "result", changed));
  }
  return absl::OkStatus();
}

absl::StatusOr<FactorRule> ParseFactorRule(absl::string_view text) {
  std::vector<absl::string_view> sides = absl::StrSplit(text, "->");
  if (sides.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat("factor rule '", text, "' needs one '->'"));
  }
  FactorRule rule;
  RETURN_IF_ERROR(ParseSide(rule, sides[0], rule.operands));
  RETURN_IF_ERROR(ParseSide(rule, sides[1], rule.results));
  for (const ValueFactors& value : rule.results) {
    for (const DimFactors& dim : value) {
      for (int f : dim) rule.factors[f].kind = FactorKind::kParallel;
    }
  }
  return rule;
}

FactorRule PointwiseRule(absl::Span<const Type> operands, const Type& result) {
  FactorRule rule;
  for (int d = 0; d < result.rank(); ++d) {
    rule.factors.push_back({absl::StrCat("d", d), result.dims[d], FactorKind::kParallel});
  }
  auto factors_of = [&](const Type& type) {
    ValueFactors dims;
    for (int d = 0; d < type.rank(); ++d) {
      int at = d + result.rank() - type.rank();
      bool broadcast = type.dims[d] == 1 && result.dims[at] != 1;
      dims.push_back(broadcast ? DimFactors{} : DimFactors{at});
    }
    return dims;
  };
  for (const Type& type : operands) rule.operands.push_back(factors_of(type));
  rule.results.push_back(factors_of(result));
  return rule;
}

FactorRule WholeRule(absl::Span<const Type> operands, absl::Span<const Type> results) {
  FactorRule rule;
  auto add = [&](absl::Span<const Type> types, std::vector<ValueFactors>& values) {
    for (const Type& type : types) {
      ValueFactors dims;
      for (int64_t extent : type.dims) {
        dims.push_back({static_cast<int>(rule.factors.size())});
        rule.factors.push_back(
            {absl::StrCat("w", rule.factors.size()), extent, FactorKind::kWhole});
      }
      values.push_back(std::move(dims));
    }
  };
  add(operands, rule.operands);
  add(results, rule.results);
  return rule;
}

}  // namespace colossus
