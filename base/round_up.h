// RoundUp: the next multiple of a unit.
//
// Thread-safe: a pure function.
//
//   RoundUp(100, 64);      // 128
#ifndef COLOSSUS_BASE_ROUND_UP_H_
#define COLOSSUS_BASE_ROUND_UP_H_

#include <cstdint>

namespace colossus {

// The least multiple of `unit` that is at least `value`. REQUIRES: value >= 0, unit >= 1, and the
// result is an int64_t.
constexpr int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace colossus

#endif  // COLOSSUS_BASE_ROUND_UP_H_
