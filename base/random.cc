#include "base/random.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/check.h"

namespace colossus {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kLn2 = 0.693147180559945309417;

// The functions below use only + - * / and sqrt, which IEEE 754 rounds exactly, and are compiled
// without contraction to fma: their bits are the same everywhere. Errors are a few 2^-53.

// The three series below in powers of the squared argument, lowest first. The factorials up to 19!
// are exact doubles, so each coefficient is rounded once.
constexpr auto kAtanhSeries = [] {
  std::array<double, 12> series{};
  for (int k = 0; k < 12; ++k) series[k] = 1.0 / (2 * k + 1);
  return series;
}();

constexpr std::array<double, 10> FactorialSeries(int first) {
  std::array<double, 10> series{};
  double factorial = 1;
  for (int k = 0; k < 10; ++k) {
    series[k] = (k % 2 == 0 ? 1 : -1) / factorial;
    factorial *= (2 * k + 1 + first) * (2 * k + 2 + first);
  }
  return series;
}
constexpr auto kCosSeries = FactorialSeries(0);
constexpr auto kSinSeries = FactorialSeries(1);

template <size_t n>
double Horner(const std::array<double, n>& series, double x) {
  double sum = series[n - 1];
  for (size_t k = n - 1; k > 0; --k) sum = sum * x + series[k - 1];
  return sum;
}

// ln(x) for a normal x > 0: x = m * 2^e with m near 1, and ln(m) = 2 atanh(s), s = (m-1)/(m+1).
double Log(double x) {
  int exponent;
  double m = 2 * std::frexp(x, &exponent);  // in [1, 2); exact
  exponent -= 1;
  if (m > 1.41421356237309504880) {
    m *= 0.5;
    exponent += 1;
  }
  const double s = (m - 1) / (m + 1);  // |s| < 0.172
  return exponent * kLn2 + 2 * (s * Horner(kAtanhSeries, s * s));
}

// cos(2 pi u) and sin(2 pi u) for u in [0, 1): Taylor's series on the nearest quarter turn.
struct CosSin {
  double cos, sin;
};
CosSin CosSinOfTurns(double u) {
  const int quarter = static_cast<int>(4 * u + 0.5);
  const double x = (4 * u - quarter) * (kPi / 2);  // in [-pi/4, pi/4]; the difference is exact
  const double cos = Horner(kCosSeries, x * x);
  const double sin = x * Horner(kSinSeries, x * x);
  switch (quarter % 4) {
    case 0: return {cos, sin};
    case 1: return {-sin, cos};
    case 2: return {-cos, -sin};
    default: return {sin, -cos};
  }
}

// What Normals computes at a time: few enough that all below stays in the first cache.
constexpr int kPairs = 64;

// Compiled for each level of the x86-64 psABI, of which the CPU's is taken when a process starts.
// The thread sanitizer does not get through the choice.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define COLOSSUS_EACH_LEVEL \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define COLOSSUS_EACH_LEVEL
#endif

// The bits of 2^52 and 2^84: with an integer below 2^32 in the lower half they are that integer
// more, and 2^32 times that integer more.
constexpr uint64_t kBitsOf2To52 = uint64_t{0x433} << 52;
constexpr uint64_t kBitsOf2To84 = uint64_t{0x453} << 52;
constexpr uint64_t kMantissa = (uint64_t{1} << 52) - 1;
constexpr uint64_t kRoot2 = std::bit_cast<uint64_t>(1.41421356237309504880) & kMantissa;

// x <= 2^53, exact. All parts of a loop over lanes are without branches and of 64 bits.
inline double ExactDouble(uint64_t x) {
  return (std::bit_cast<double>(kBitsOf2To84 | x >> 32) - 0x1p84) +
         (std::bit_cast<double>(kBitsOf2To52 | (x & 0xffffffff)) - 0x1p52);
}

// Log, of x in (0, 1].
inline double LogOfLane(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const uint64_t mantissa = bits & kMantissa;
  const uint64_t above = (kRoot2 - mantissa) >> 63;  // 1 if m is above the root of 2
  const double m = std::bit_cast<double>((1023 - above) << 52 | mantissa);
  const double exponent =
      std::bit_cast<double>(kBitsOf2To52 | ((bits >> 52) + above)) - (0x1p52 + 1023);
  const double s = (m - 1) / (m + 1);
  return exponent * kLn2 + 2 * (s * Horner(kAtanhSeries, s * s));
}

// CosSinOfTurns: in odd quarters cosine and sine change places, and signs are set by the quarter.
inline CosSin CosSinOfLane(double u) {
  const int quarter = static_cast<int>(4 * u + 0.5);
  const double x = (4 * u - quarter) * (kPi / 2);
  const uint64_t cos = std::bit_cast<uint64_t>(Horner(kCosSeries, x * x));
  const uint64_t sin = std::bit_cast<uint64_t>(x * Horner(kSinSeries, x * x));
  const uint64_t q = static_cast<uint64_t>(quarter);
  const uint64_t changed = (cos ^ sin) & (0 - (q & 1));
  return {std::bit_cast<double>(cos ^ changed ^ ((q + 1) & 2) << 62),
          std::bit_cast<double>(sin ^ changed ^ (q & 2) << 62)};
}

// The 2 * kPairs numbers of elements 2 * first to 2 * first + 2 * kPairs - 1.
COLOSSUS_EACH_LEVEL void NormalPairs(RandomKey key, uint64_t stream, uint64_t first,
                                     double* values) {
  uint32_t words[4][kPairs];
  for (int i = 0; i < kPairs; ++i) {
    const uint64_t pair = first + static_cast<uint64_t>(i);
    words[0][i] = static_cast<uint32_t>(pair);
    words[1][i] = static_cast<uint32_t>(pair >> 32);
    words[2][i] = static_cast<uint32_t>(stream);
    words[3][i] = static_cast<uint32_t>(stream >> 32);
  }
  std::array<uint32_t, 2> round_key = {static_cast<uint32_t>(key.seed),
                                       static_cast<uint32_t>(key.seed >> 32)};
  for (int round = 0; round < kPhiloxRounds; ++round) {
    for (int i = 0; i < kPairs; ++i) {
      const PhiloxBlock next =
          PhiloxRound({words[0][i], words[1][i], words[2][i], words[3][i]}, round_key);
      for (int w = 0; w < 4; ++w) words[w][i] = next[static_cast<size_t>(w)];
    }
    round_key = NextPhiloxKey(round_key);
  }
  for (int i = 0; i < kPairs; ++i) {
    const uint64_t first_uniform = (uint64_t{words[0][i]} << 32 | words[1][i]) >> 11;
    const uint64_t second_uniform = (uint64_t{words[2][i]} << 32 | words[3][i]) >> 11;
    const double radius = std::sqrt(-2 * LogOfLane(ExactDouble(first_uniform + 1) * 0x1p-53));
    const CosSin direction = CosSinOfLane(ExactDouble(second_uniform) * 0x1p-53);
    values[2 * i] = radius * direction.cos;
    values[2 * i + 1] = radius * direction.sin;
  }
}

}  // namespace

uint64_t SiteId(absl::string_view site) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, whose weak upper bits MixBits repairs
  for (const char c : site) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return MixBits(hash);
}

double Normal(RandomKey key, uint64_t site, uint64_t element) {
  // Elements 2i and 2i + 1 are the cosine and the sine of one pair of uniform numbers.
  const PhiloxBlock words = RandomQuad(key, site, element / 2);
  const uint64_t first = (uint64_t{words[0]} << 32 | words[1]) >> 11;
  const uint64_t second = (uint64_t{words[2]} << 32 | words[3]) >> 11;
  const double radius_uniform = static_cast<double>(first + 1) * 0x1p-53;  // in (0, 1]
  const double radius = std::sqrt(-2 * Log(radius_uniform));
  const CosSin direction = CosSinOfTurns(static_cast<double>(second) * 0x1p-53);
  return radius * (element % 2 == 0 ? direction.cos : direction.sin);
}

void Normals(RandomKey key, uint64_t site, uint64_t first, absl::Span<double> values) {
  const uint64_t stream = RandomStream(key, site);
  double block[2 * kPairs];
  size_t done = 0;
  while (done < values.size()) {
    const uint64_t element = first + done;
    const size_t skipped = element % 2;
    const size_t count = std::min(values.size() - done, 2 * kPairs - skipped);
    NormalPairs(key, stream, element / 2, block);
    std::copy_n(block + skipped, count, values.begin() + done);
    done += count;
  }
}

uint64_t PermutedIndex(RandomKey key, uint64_t site, uint64_t index, uint64_t n) {
  CHECK_LT(index, n);
  if (n == 1) return 0;
  // A Feistel network over the fewest bits that hold n - 1, in two halves of widths that differ by
  // at most one. An output >= n goes through again: the walk along its cycle comes back below n.
  const int bits = std::bit_width(n - 1);
  const int low_bits = (bits + 1) / 2;
  const uint64_t low_mask = (uint64_t{1} << low_bits) - 1;
  const uint64_t high_mask = (uint64_t{1} << (bits - low_bits)) - 1;
  const PhiloxBlock words = RandomQuad(key, site, 0);
  const uint64_t round_key = uint64_t{words[0]} << 32 | words[1];
  constexpr int kRounds = 8;
  do {
    uint64_t low = index & low_mask, high = index >> low_bits;
    for (uint64_t round = 0; round < kRounds; round += 2) {
      low ^= MixBits(round_key + MixBits((round << 56) + high)) & low_mask;
      high ^= MixBits(round_key + MixBits(((round + 1) << 56) + low)) & high_mask;
    }
    index = high << low_bits | low;
  } while (index >= n);
  return index;
}

}  // namespace colossus
