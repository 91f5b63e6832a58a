// ShardingOverride: a person's word on how certain states are split.
//
// Purpose: the part of a plan that names tensors. Thread-safety: a plain value and pure functions.
//
//   plan.overrides = {{"*.mlp.c_fc.weight", {{}, {"tensor"}}}};
//   OverridesText(plan.overrides);   // "*.mlp.c_fc.weight=/tensor"
#ifndef COLOSSUS_PARALLEL_SHARDING_OVERRIDE_H_
#define COLOSSUS_PARALLEL_SHARDING_OVERRIDE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensor/graph/sharding.h"

namespace colossus {

// The sharding of the states whose names match, whatever the rules say.
struct ShardingOverride {
  std::string pattern;          // "*" stands for any text, "?" for one character
  std::vector<AxisNames> dims;  // of the state's dims, in order; dims without an entry stay whole
  friend bool operator==(const ShardingOverride&, const ShardingOverride&) = default;
};

// As flags write them: entries with ";" between them, each a pattern, "=" and its dims with "/"
// between them; the axes of a dim with "+" between them, major first. Blanks do not matter.
std::string OverridesText(const std::vector<ShardingOverride>& overrides);
// Error: InvalidArgument, the entry that is none.
absl::StatusOr<std::vector<ShardingOverride>> ParseOverrides(absl::string_view text);

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_SHARDING_OVERRIDE_H_
