#include "tensor/ops/op.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace colossus {

FactorPart PartOfDim(const FactorRule& rule, const DimFactors& factors,
                     absl::Span<const FactorPart> parts) {
  FactorPart range{0, 1};
  for (size_t i = 0; i < factors.size(); ++i) {
    const FactorPart& part = parts[factors[i]];
    // A minor factor may be split where those before it are split down to one.
    CHECK(range.extent == 1 || part.extent == rule.factors[factors[i]].extent)
        << "minor factor '" << rule.factors[factors[i]].label << "' is split";
    range.origin = range.origin * rule.factors[factors[i]].extent + part.origin;
    range.extent *= part.extent;
  }
  return range;
}

absl::Status Op::Gradient(GradientBuilder&) const {
  return absl::InvalidArgumentError(absl::StrCat("op '", name(), "' has no gradient"));
}

absl::StatusOr<Attributes> Op::Localize(const OpCall& call, absl::Span<const FactorPart>) const {
  return call.attributes;
}

absl::Status Op::Expand(ShardedCall&, GraphBuilder&) const {
  return absl::InvalidArgumentError(
      absl::StrCat("op '", name(), "' cannot be split with collectives inside"));
}

Aliases Op::MayAlias(const OpCall&) const { return {}; }

bool Op::IsView(const OpCall&) const { return false; }

std::vector<int64_t> Op::ViewOffsets(const OpCall&) const { return {0}; }

std::vector<int64_t> Op::OperandPlaces(const OpCall&) const { return {}; }

double Op::BytesOf(const OpCall& call) const {
  absl::StatusOr<Types> results = Infer(call);
  CHECK_OK(results.status());
  double bytes = 0;
  for (const Type& type : call.operands) bytes += static_cast<double>(type.bytes());
  for (const Type& type : *results) bytes += static_cast<double>(type.bytes());
  return bytes;
}

int OptionalOperand(const Attributes& attributes, int fixed, absl::string_view role) {
  if (!attributes.Has("with")) return -1;
  const Strings& roles = attributes.StringList("with");
  for (size_t i = 0; i < roles.size(); ++i) {
    if (roles[i] == role) return fixed + static_cast<int>(i);
  }
  return -1;
}

absl::Status CheckAttributes(const OpCall& call, absl::string_view constraint,
                             std::initializer_list<absl::string_view> allowed) {
  for (const auto& item : call.attributes.values()) {
    if (std::find(allowed.begin(), allowed.end(), item.first) == allowed.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(constraint, ": unknown attribute '", item.first, "'"));
    }
  }
  return absl::OkStatus();
}

}  // namespace colossus
