// ShardingOverride: a person's word on how certain states are split.
//
// Purpose: the part of a plan that names tensors. Thread-safety: a plain value.
//
//   plan.overrides = {{"*.mlp.c_fc.weight", {{}, {"tensor"}}}};
#ifndef COLOSSUS_PARALLEL_SHARDING_OVERRIDE_H_
#define COLOSSUS_PARALLEL_SHARDING_OVERRIDE_H_

#include <string>
#include <vector>

#include "tensor/graph/sharding.h"

namespace colossus {

// The sharding of the states whose names match, whatever the rules say.
struct ShardingOverride {
  std::string pattern;          // "*" stands for any text, "?" for one character
  std::vector<AxisNames> dims;  // of the state's dims, in order; dims without an entry stay whole
  friend bool operator==(const ShardingOverride&, const ShardingOverride&) = default;
};

}  // namespace colossus

#endif  // COLOSSUS_PARALLEL_SHARDING_OVERRIDE_H_
