#include "base/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"

namespace colossus {
namespace {

constexpr RandomKey kKey = {.seed = 42, .update = 3};

TEST(Philox, KnownAnswers) {
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Golden values: a change here breaks resuming of runs made by earlier versions.
TEST(Random, GoldenValues) {
  EXPECT_EQ(SiteId(""), 0xf52a15e9a9b5e89bu);
  EXPECT_EQ(SiteId("block0.dropout"), 0xe619757a9e111fd8u);
  EXPECT_EQ(RandomBits(kKey, 5, 6), 0xd5649291u);
  EXPECT_EQ(Normal(kKey, 5, 6), 0x1.e36d98b91d46cp-2);
  EXPECT_EQ(Normal(kKey, 5, 7), -0x1.725e90caf0dfcp-1);
  EXPECT_EQ(PermutedIndex(kKey, 5, 6, 1000), 29u);
}

TEST(Random, EveryPartOfTheNameMatters) {
  std::set<uint32_t> seen;
  seen.insert(RandomBits(kKey, 5, 6));
  seen.insert(RandomBits({.seed = 43, .update = 3}, 5, 6));
  seen.insert(RandomBits({.seed = 42 | uint64_t{1} << 40, .update = 3}, 5, 6));
  seen.insert(RandomBits({.seed = 42, .update = 4}, 5, 6));
  seen.insert(RandomBits({.seed = 42, .update = 3 | uint64_t{1} << 40}, 5, 6));
  seen.insert(RandomBits(kKey, 6, 6));
  seen.insert(RandomBits(kKey, 5 | uint64_t{1} << 40, 6));
  for (uint64_t element : {0, 1, 7, 8}) seen.insert(RandomBits(kKey, 5, element));
  seen.insert(RandomBits(kKey, 5, 6 | uint64_t{1} << 40));
  EXPECT_EQ(seen.size(), 12u);
}

TEST(Random, QuadsAreFourElements) {
  for (uint64_t quad : {uint64_t{0}, uint64_t{77}, uint64_t{1} << 50}) {
    const PhiloxBlock words = RandomQuad(kKey, 1, quad);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(RandomBits(kKey, 1, 4 * quad + i), words[i]);
  }
}

// Limits of 5 standard deviations of the mean: a fixed key either passes always or never.
TEST(Random, UniformHasItsMomentsAndRange) {
  constexpr int kCount = 1 << 18;
  double sum = 0, squares = 0, lag = 0, last = 0.5;
  for (int i = 0; i < kCount; ++i) {
    const double u = UniformFloat(kKey, SiteId("uniform"), i);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    squares += u * u;
    lag += (u - 0.5) * (last - 0.5);
    last = u;
  }
  EXPECT_NEAR(sum / kCount, 1.0 / 2, 5 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / kCount));
  EXPECT_NEAR(lag / kCount, 0, 5.0 / 12 / std::sqrt(kCount));
  EXPECT_EQ(UniformFromBits(0xffffffff), 1 - 0x1p-24f);
  EXPECT_EQ(UniformFromBits(0xff), 0);
}

TEST(Random, NormalHasItsMomentsAndTails) {
  constexpr int kCount = 1 << 18;
  double sum = 0, squares = 0, fourth = 0, neighbours = 0, last = 0;
  int beyond_two = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = Normal(kKey, SiteId("normal"), i);
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    neighbours += x * last;
    last = x;
    beyond_two += std::fabs(x) > 2;
  }
  EXPECT_NEAR(sum / kCount, 0, 5 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1, 5 * std::sqrt(2.0 / kCount));
  EXPECT_NEAR(fourth / kCount, 3, 5 * std::sqrt(96.0 / kCount));
  EXPECT_NEAR(neighbours / kCount, 0, 5 / std::sqrt(kCount));
  EXPECT_NEAR(beyond_two / double{kCount}, 0.0455, 5 * std::sqrt(0.0455 / kCount));
}

// Against libm. Near u = 1 the logarithm is tiny and the radius its root: the absolute error of a
// few units of 2^-53 in logarithm and angle, times a radius below 9, stays below 1e-14.
TEST(Random, NormalIsBoxMuller) {
  for (uint64_t i = 0; i < 200000; ++i) {
    const PhiloxBlock words = RandomQuad(kKey, 9, i / 2);
    const double u = (((uint64_t{words[0]} << 32 | words[1]) >> 11) + 1) * 0x1p-53;
    const double v = ((uint64_t{words[2]} << 32 | words[3]) >> 11) * 0x1p-53;
    const double radius = std::sqrt(-2 * std::log(u));
    const double want = radius * (i % 2 == 0 ? std::cos(2 * M_PI * v) : std::sin(2 * M_PI * v));
    ASSERT_NEAR(Normal(kKey, 9, i), want, 1e-14) << i;
  }
}

// Protects: what a seed gives, whichever function computes it. Millions of numbers, so that every
// quarter turn, both halves of the logarithm's range and many of its exponents occur.
TEST(Random, NormalsAreNormal) {
  constexpr uint64_t kCount = 4 << 20;
  const RandomKey key = {.seed = uint64_t{7} << 40 | 3, .update = 5};
  const uint64_t first = (uint64_t{1} << 33) - kCount / 2;  // pairs pass 2^32
  std::vector<double> values(kCount);
  Normals(key, 9, first, absl::MakeSpan(values));
  for (uint64_t i = 0; i < kCount; ++i) {
    const double want = Normal(key, 9, first + i);
    ASSERT_EQ(std::bit_cast<uint64_t>(values[i]), std::bit_cast<uint64_t>(want)) << i;
  }
}

TEST(Random, NormalsStartAndEndAnywhere) {
  for (uint64_t first : {0, 1, 126, 127, 129}) {
    for (size_t count : {0, 1, 2, 127, 128, 129, 255, 300}) {
      std::vector<double> values(count + 1, 99);
      Normals(kKey, 9, first, absl::MakeSpan(values.data(), count));
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(values[i], Normal(kKey, 9, first + i)) << i;
      EXPECT_EQ(values[count], 99);
    }
  }
}

TEST(PermutedIndex, IsABijectionForManySizes) {
  std::vector<uint64_t> sizes = {1023, 1024, 1025, 4097, 65536, 100003};
  for (uint64_t n = 1; n <= 300; ++n) sizes.push_back(n);
  for (const uint64_t n : sizes) {
    std::vector<bool> hit(n);
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t to = PermutedIndex(kKey, 11, i, n);
      ASSERT_LT(to, n);
      ASSERT_FALSE(hit[to]) << "n=" << n << " index=" << i;
      hit[to] = true;
    }
  }
}

TEST(PermutedIndex, SpreadsAndDependsOnTheKey) {
  constexpr uint64_t kSize = 10007;
  int fixed = 0, same = 0, neighbours = 0;
  for (uint64_t i = 0; i + 1 < kSize; ++i) {
    const uint64_t to = PermutedIndex(kKey, 11, i, kSize);
    fixed += to == i;
    same += to == PermutedIndex({.seed = 42, .update = 4}, 11, i, kSize);
    neighbours += PermutedIndex(kKey, 11, i + 1, kSize) == to + 1;
  }
  // Each is Poisson with mean 1 for a random permutation: 12 or more has probability 1e-10.
  EXPECT_LT(fixed, 12);
  EXPECT_LT(same, 12);
  EXPECT_LT(neighbours, 12);
}

TEST(PermutedIndex, AllPermutationsOfThreeOccurEquallyOften) {
  std::vector<int> counts(27);
  constexpr int kKeys = 6000;
  for (uint64_t seed = 0; seed < kKeys; ++seed) {
    const RandomKey key = {.seed = seed};
    counts[9 * PermutedIndex(key, 0, 0, 3) + 3 * PermutedIndex(key, 0, 1, 3) +
           PermutedIndex(key, 0, 2, 3)]++;
  }
  std::sort(counts.rbegin(), counts.rend());
  // 1000 each with a standard deviation of 29.
  EXPECT_NEAR(counts[0], 1000, 150);
  EXPECT_NEAR(counts[5], 1000, 150);
  EXPECT_EQ(counts[6], 0);
}

TEST(PermutedIndex, TakesSizesUpToTheLargest) {
  for (const uint64_t n : {uint64_t{1} << 32, (uint64_t{1} << 63) + 1, ~uint64_t{0}}) {
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < 1000; ++i) {
      const uint64_t to = PermutedIndex(kKey, 1, n - 1 - i, n);
      EXPECT_LT(to, n);
      seen.insert(to);
    }
    EXPECT_EQ(seen.size(), 1000u);
  }
  EXPECT_DEATH(PermutedIndex(kKey, 1, 5, 5), "index < n \\(5 vs 5\\)");
  EXPECT_DEATH(PermutedIndex(kKey, 1, 0, 0), "index < n");
}

}  // namespace
}  // namespace colossus
