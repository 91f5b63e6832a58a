// Stochastic rounding of f32 to bf16: up with the probability of the part that is cut off.
//
// Purpose: a moment that changes by less than half a bf16 step would never change when rounded to
// nearest; rounded up or down at random it is right on average. The random bits are a function of
// (seed, update, site, element), so the result is too.
// Thread-safe: no state.
//
//   BF16 b = RoundStochastically(1.001f, LowHalf(RandomBits(key, site, element)));
#ifndef COLOSSUS_TENSOR_OPS_STOCHASTIC_ROUNDING_H_
#define COLOSSUS_TENSOR_OPS_STOCHASTIC_ROUNDING_H_

#include <bit>
#include <cstdint>

#include "base/dtype.h"
#include "base/host_device.h"

namespace colossus {

// Two moments of an element share its 32 bits.
HD constexpr uint32_t LowHalf(uint32_t bits) { return bits & 0xffffu; }
HD constexpr uint32_t HighHalf(uint32_t bits) { return bits >> 16; }

// `random`: uniform in [0, 2^16). Values of bf16 stay, as do infinities and NaN; 0: towards zero.
HD constexpr BF16 RoundStochastically(float value, uint32_t random) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  if ((u & 0x7f800000u) == 0x7f800000u) return BF16::From(value);
  return BF16{static_cast<uint16_t>((u + random) >> 16)};
}

}  // namespace colossus

#endif  // COLOSSUS_TENSOR_OPS_STOCHASTIC_ROUNDING_H_
