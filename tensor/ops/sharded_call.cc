#include "tensor/ops/sharded_call.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/check.h"

namespace colossus {

ShardedCall::ShardedCall(Spec spec) : spec_(std::move(spec)) {
  CHECK(spec_.op != nullptr && spec_.mesh != nullptr);
  CHECK_EQ(spec_.factor_axes.size(), spec_.rule.factors.size());
  CHECK_EQ(spec_.x.size(), spec_.rule.operands.size());
  CHECK_EQ(spec_.x_shardings.size(), spec_.x.size());
  y_.resize(spec_.rule.results.size(), kNoValue);
  y_shardings_.resize(y_.size());
}

const AxisNames& ShardedCall::axes(absl::string_view label) const {
  int factor = rule().Find(label);
  CHECK(factor >= 0) << "no factor '" << label << "' in " << rule().ToString();
  return spec_.factor_axes[factor];
}

FactorPart ShardedCall::part(absl::string_view label) const {
  int64_t extent = rule().factors[rule().Find(label)].extent / parts(label);
  return {index(label) * extent, extent};
}

bool ShardedCall::IsWhole(int factor, absl::Span<const absl::string_view> whole) const {
  const std::string& label = rule().factors[factor].label;
  return std::find(whole.begin(), whole.end(), label) != whole.end();
}

absl::StatusOr<Attributes> ShardedCall::LocalAttributes(
    absl::Span<const absl::string_view> whole) const {
  std::vector<FactorPart> parts;
  for (size_t f = 0; f < rule().factors.size(); ++f) {
    const Factor& factor = rule().factors[f];
    parts.push_back(IsWhole(static_cast<int>(f), whole) ? FactorPart{0, factor.extent}
                                                        : part(factor.label));
  }
  return op().Localize(global(), parts);
}

Sharding ShardedCall::ByFactors(const ValueFactors& dims,
                                absl::Span<const absl::string_view> whole) const {
  Sharding sharding;
  for (const DimFactors& dim : dims) {
    sharding.dims.emplace_back();
    for (int f : dim) {
      if (IsWhole(f, whole)) continue;
      const AxisNames& axes = spec_.factor_axes[f];
      sharding.dims.back().insert(sharding.dims.back().end(), axes.begin(), axes.end());
    }
  }
  return sharding;
}

AxisNames ShardedCall::PartialAxes(const ValueFactors& dims,
                                   absl::Span<const absl::string_view> whole) const {
  std::set<int> present;
  for (const DimFactors& dim : dims) present.insert(dim.begin(), dim.end());
  std::set<std::string> lacking;
  for (size_t f = 0; f < rule().factors.size(); ++f) {
    int factor = static_cast<int>(f);
    if (present.count(factor) || IsWhole(factor, whole)) continue;
    lacking.insert(spec_.factor_axes[f].begin(), spec_.factor_axes[f].end());
  }
  AxisNames partial;
  for (const MeshAxis& axis : mesh().axes()) {
    if (lacking.count(axis.name)) partial.push_back(axis.name);
  }
  return partial;
}

Sharding ShardedCall::LocalResult(int i, absl::Span<const absl::string_view> whole) const {
  Sharding sharding = ByFactors(rule().results[i], whole);
  sharding.partial = PartialAxes(rule().results[i], whole);
  return sharding;
}

void ShardedCall::Set(int i, ValueId local, Sharding sharding) {
  y_[i] = local;
  y_shardings_[i] = std::move(sharding);
}

}  // namespace colossus
