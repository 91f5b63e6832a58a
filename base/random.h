// Counter-based random numbers: every number is a pure function of where it is used, so results
// depend on neither thread, rank, schedule nor the order of calls.
//
// A number is named by (seed, update, site, element): `site` is the place in the model that draws
// (a name, hashed by SiteId), `element` the global element index there. One site draws with one of
// the functions below only; drawing with two from the same site gives dependent numbers.
// Thread-safe: no state. The bits are the same on every CPU and in every build.
//
//   const uint64_t site = SiteId("block3.attention.dropout");
//   bool keep = UniformFloat({.seed = 1, .update = 7}, site, element) >= rate;
#ifndef COLOSSUS_BASE_RANDOM_H_
#define COLOSSUS_BASE_RANDOM_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/host_device.h"

namespace colossus {

// What is common to all draws of one update. For draws outside updates (initial weights, sample
// order) `update` is whatever numbers them: 0, or the epoch.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t update = 0;
};

using PhiloxBlock = std::array<uint32_t, 4>;

// The block function Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3").
inline constexpr int kPhiloxRounds = 10;

HD constexpr PhiloxBlock PhiloxRound(const PhiloxBlock& counter,
                                     const std::array<uint32_t, 2>& key) {
  const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
  const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
  return {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
          static_cast<uint32_t>(product1),
          static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
          static_cast<uint32_t>(product0)};
}

HD constexpr std::array<uint32_t, 2> NextPhiloxKey(const std::array<uint32_t, 2>& key) {
  return {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
}

HD constexpr PhiloxBlock Philox4x32(PhiloxBlock counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    counter = PhiloxRound(counter, key);
    key = NextPhiloxKey(key);
  }
  return counter;
}

// A bijection of 64-bit numbers in which every input bit reaches every output bit.
HD constexpr uint64_t MixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A hash of a site's name that never changes between versions: runs are resumed by it.
uint64_t SiteId(absl::string_view site);

// The part of a counter that all elements of a site have in common.
HD constexpr uint64_t RandomStream(RandomKey key, uint64_t site) {
  return MixBits(site + MixBits(key.update + 0x9e3779b97f4a7c15u));
}

// The four words of elements 4 * quad to 4 * quad + 3: what loops over many elements call.
HD constexpr PhiloxBlock RandomQuad(RandomKey key, uint64_t site, uint64_t quad) {
  const uint64_t stream = RandomStream(key, site);
  return Philox4x32({static_cast<uint32_t>(quad), static_cast<uint32_t>(quad >> 32),
                     static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                    {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)});
}

// 32 independent bits.
HD constexpr uint32_t RandomBits(RandomKey key, uint64_t site, uint64_t element) {
  return RandomQuad(key, site, element / 4)[element % 4];
}

// The upper 24 of 32 bits as a multiple of 2^-24 in [0, 1).
HD constexpr float UniformFromBits(uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}

// Uniform in [0, 1): UniformFromBits(RandomBits(...)).
HD constexpr float UniformFloat(RandomKey key, uint64_t site, uint64_t element) {
  return UniformFromBits(RandomBits(key, site, element));
}

// Standard normal, by Box-Muller in double with own logarithm and cosine, so that libm's choice of
// instructions cannot change it. |result| < 8.6.
double Normal(RandomKey key, uint64_t site, uint64_t element);

// values[i] = Normal(key, site, first + i), bit for bit, by vector instructions: a pair of numbers
// costs one block function, one logarithm, one root and one quarter turn, where two calls of Normal
// cost two of each.
void Normals(RandomKey key, uint64_t site, uint64_t first, absl::Span<double> values);

// Where `index` goes in a random permutation of [0, n): a bijection for each (key, site, n), found
// without a table in constant expected time. REQUIRES: index < n.
uint64_t PermutedIndex(RandomKey key, uint64_t site, uint64_t index, uint64_t n);

}  // namespace colossus

#endif  // COLOSSUS_BASE_RANDOM_H_
