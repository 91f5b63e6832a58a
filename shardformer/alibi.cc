#include "shardformer/alibi.h"

#include <bit>
#include <cmath>

#include "base/check.h"

namespace colossus {

std::vector<float> AlibiSlopes(int64_t heads) {
  CHECK_GT(heads, 0);
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  const auto slope = [](int64_t i, int64_t n) {
    return static_cast<float>(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(n)));
  };
  std::vector<float> slopes;
  for (int64_t i = 1; i <= power; ++i) slopes.push_back(slope(i, power));
  for (int64_t i = 1; std::ssize(slopes) < heads; i += 2) slopes.push_back(slope(i, 2 * power));
  return slopes;
}

}  // namespace colossus
